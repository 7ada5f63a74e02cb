# A JUnit file as GitLab reads it: Hash.from_xml of ActiveSupport, with Nokogiri below it. GitLab takes
# the text of a failure, an error or a skipped case, and what is said in its attributes only if it
# has none. Prints the version, then a line of JSON for each case: class name, name, element, text.
require "json"
require "active_support"
require "active_support/core_ext/hash/conversions"

ActiveSupport::XmlMini.backend = "Nokogiri"

def each_case(node, &block)
  [node].flatten.compact.each do |one|
    next unless one.is_a?(Hash)

    %w[testsuites testsuite].each { |tag| each_case(one[tag], &block) }
    [one["testcase"]].flatten.compact.each(&block)
  end
end

puts "activesupport #{ActiveSupport::VERSION::STRING}, nokogiri #{Nokogiri::VERSION}"
each_case(Hash.from_xml(File.read(ARGV[0]))) do |one|
  kind = %w[failure error skipped].find { |tag| one.key?(tag) }
  puts JSON.generate([one["classname"], one["name"], kind, kind && one[kind]])
end
