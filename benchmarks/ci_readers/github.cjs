// A JUnit file by the npm libraries with which GitHub actions read it. Prints the version, then a line
// of JSON for each case: class name, name, element, text.
"use strict";
const fs = require("node:fs");

const [library, file] = process.argv.slice(2);
const KINDS = ["failure", "error", "skipped"];
const list = (one) => (one === undefined ? [] : Array.isArray(one) ? one : [one]);

// How each library gives the attributes and the text of an element.
const LIBRARIES = {
  "xml2js": async (xml) => [
    await require("xml2js").parseStringPromise(xml),
    (one, name) => one.$?.[name],
    (one) => one._ ?? one,
  ],
  "xml-js": async (xml) => [
    require("xml-js").xml2js(xml, { compact: true }),
    (one, name) => one._attributes?.[name],
    (one) => list(one._text).join(""),
  ],
  "fast-xml-parser": async (xml) => [
    new (require("fast-xml-parser").XMLParser)({
      ignoreAttributes: false, parseTagValue: false, parseAttributeValue: false, trimValues: false,
    }).parse(xml),
    (one, name) => one[`@_${name}`],
    (one) => one["#text"],
  ],
};

LIBRARIES[library](fs.readFileSync(file, "utf8")).then(([root, attribute, text]) => {
  const [, folder] = require.resolve(library).match(`^(.*/node_modules/${library}/)`);
  console.log(`${library} ${JSON.parse(fs.readFileSync(`${folder}package.json`)).version}`);
  for (const suite of list(root.testsuites.testsuite)) {
    for (const one of list(suite.testcase)) {
      const kind = KINDS.find((tag) => one[tag] !== undefined) ?? null;
      const told = kind && text(list(one[kind])[0]);
      console.log(JSON.stringify([attribute(one, "classname"), attribute(one, "name"), kind, told]));
    }
  }
});
