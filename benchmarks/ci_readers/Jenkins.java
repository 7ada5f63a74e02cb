import java.io.File;
import java.util.List;
import org.dom4j.Element;
import org.dom4j.io.SAXReader;

/**
 * A JUnit file as the JUnit plugin of Jenkins reads it: by dom4j, suites in suites, entities from
 * elsewhere off. Prints the version, then a line of JSON for each case: class name, name, element, text.
 */
class Jenkins {
    public static void main(String[] arguments) throws Exception {
        SAXReader reader = new SAXReader();
        reader.setFeature("http://xml.org/sax/features/external-general-entities", false);
        String file = SAXReader.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        System.out.println("dom4j " + new File(file).getCanonicalFile().getName());
        print(reader.read(new File(arguments[0])).getRootElement());
    }

    private static void print(Element suite) {
        for (Element inner : suite.elements("testsuite")) {
            print(inner);
        }
        for (Element one : suite.elements("testcase")) {
            Element found = null;
            for (String tag : List.of("failure", "error", "skipped")) {
                found = found == null ? one.element(tag) : found;
            }
            String kind = found == null ? null : found.getName();
            String text = found == null ? null : found.getText();
            System.out.println("[" + json(one.attributeValue("classname")) + ","
                + json(one.attributeValue("name")) + "," + json(kind) + "," + json(text) + "]");
        }
    }

    private static String json(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            boolean plain = one >= ' ' && one < 127 && one != '"' && one != '\\';
            quoted.append(plain ? String.valueOf(one) : String.format("\\u%04x", (int) one));
        }
        return quoted.append('"').toString();
    }
}
