use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;
use serde_json::json;

use super::*;

fn one(text: &str) -> Document {
    let mut documents = parse("f.yaml", text.as_bytes()).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn faults(text: &[u8]) -> Vec<String> {
    parse("f.yaml", text)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[rstest]
#[case("~", json!(null))]
#[case("", json!(null))]
#[case("Null", json!(null))]
#[case("y", json!(true))]
#[case("On", json!(true))]
#[case("NO", json!(false))]
#[case("off", json!(false))]
#[case("'yes'", json!("yes"))]
#[case("\"1\"", json!("1"))]
#[case("12", json!(12))]
#[case("-7", json!(-7))]
#[case("+7", json!(7))]
#[case("1_000", json!(1000))]
#[case("0x1F", json!(31))]
#[case("0o17", json!(15))]
#[case("0b101", json!(5))]
#[case("0644", json!(420))]
#[case("089", json!(89))]
#[case("18446744073709551615", json!(u64::MAX))]
#[case("-9223372036854775808", json!(i64::MIN))]
#[case("1.5", json!(1.5))]
#[case(".5", json!(0.5))]
#[case("1e3", json!(1000))]
#[case("1.0", json!(1))]
#[case("+", json!("+"))]
#[case("1.2.3", json!("1.2.3"))]
#[case("10s", json!("10s"))]
#[case("0x", json!("0x"))]
#[case("2001-12-14", json!("2001-12-14"))]
#[case("2001-12-14t21:59:43.10-05:00", json!("2001-12-14t21:59:43.10-05:00"))]
#[case("12:30:45", json!("12:30:45"))]
#[case("!!str 12", json!("12"))]
#[case("! 12", json!("12"))]
#[case("!!int '12'", json!(12))]
#[case("!!float 1", json!(1))]
#[case("|\n    a\n    b\n", json!("a\nb\n"))]
fn a_scalar_means_what_kubectl_reads(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(
        one(&format!("k: {text}\n")).value,
        json!({ "k": expected }),
        "{text}"
    );
}

#[rstest]
#[case::tab_in_json("{\n\t\"a\": [1, true, null, \"x\\/\\u00e9\"]\n}", json!({"a": [1, true, null, "x/é"]}))]
#[case::merge("a: &a {x: 1, y_: 2}\nb: {<<: *a, x: 3}\n", json!({"a": {"x": 1, "y_": 2}, "b": {"x": 3, "y_": 2}}))]
#[case::merge_list("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b]}\n", json!({"a": {"x": 1}, "b": {"x": 2, "z": 3}, "c": {"x": 1, "z": 3}}))]
#[case::quoted_merge_is_a_key("\"<<\": 1", json!({"<<": 1}))]
#[case::alias("a: &x [1]\nb: *x", json!({"a": [1], "b": [1]}))]
fn a_document_has_the_value(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(one(text).value, expected);
}

#[test]
fn empty_documents_are_left_out() {
    let documents = parse("f", b"# only a comment\n---\na: 1\n---\n---\nb: 2\n...\n").unwrap();
    let values: Vec<_> = documents.iter().map(|d| d.value.clone()).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(documents[1].place("b"), Place { line: 6, column: 1 });
    assert!(parse("f", b"").unwrap().is_empty());
    assert_eq!(
        parse("f", b"\xef\xbb\xbfa: 1").unwrap()[0].value,
        json!({"a": 1})
    );
}

#[rstest]
#[case("", 2, 1)]
#[case("spec", 2, 1)]
#[case("spec.list", 3, 3)]
#[case("spec.list[0].b", 5, 7)]
#[case("spec.list[1]", 6, 7)]
#[case("spec.list[7].b", 3, 3)]
#[case("spec.list[x", 3, 3)]
#[case("spec.a.b", 7, 3)]
#[case("spec.a.b.c", 8, 5)]
#[case("spec.absent.deep", 2, 1)]
fn a_field_has_a_place(#[case] field: &str, #[case] line: usize, #[case] column: usize) {
    let document = one("\nspec:\n  list:\n    - a: 1\n      b: 2\n    - x: 1\n  a.b:\n    c: 3\n");
    assert_eq!(document.place(field), Place { line, column });
}

#[rstest]
#[case::duplicate("a: 1\nb:\n  c: 1\n  c: 2\n", &["f.yaml:4:3: b.c: given twice, first on line 3; remove one of the two"])]
#[case::all_duplicates("a: 1\na: 2\nb: 1\nb: 1", &["f.yaml:2:1: a: given twice, first on line 1; remove one of the two", "f.yaml:4:1: b: given twice, first on line 3; remove one of the two"])]
#[case::number_key("a:\n  1: x", &["f.yaml:2:3: a: a key is the number 1, not a string; put the key in quotes"])]
#[case::boolean_key("on: x", &["f.yaml:1:1: a key is a boolean (YAML reads y, n, on, off, yes and no so), not a string; put the key in quotes"])]
#[case::list_key("? [a]\n: x", &["f.yaml:1:3: a key is a list, not a string; put the key in quotes"])]
#[case::infinite("a: [1, .inf]", &["f.yaml:1:8: a[1]: the value is no number that JSON can hold; put it in quotes"])]
#[case::huge("a: 1e999", &["f.yaml:1:4: a: the value is too large for a number; put it in quotes"])]
#[case::tag("a: !ruby/object x", &["f.yaml:1:4: a: the tag !ruby/object has no meaning here; remove the tag"])]
#[case::wrong_tag("a: !!int x", &["f.yaml:1:4: a: the value is not what its tag tag:yaml.org,2002:!int says; remove the tag"])]
#[case::merge_of_scalar("a: {<<: 1}", &["f.yaml:1:9: a.<<: a merge needs a mapping or a list of mappings; write `<<: *anchor`"])]
#[case::own_alias("a: &x [*x]", &["f.yaml:1:8: a[0]: the alias stands inside the value it names"])]
fn a_fault_names_file_line_and_field(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(faults(text.as_bytes()), expected);
}

#[rstest]
#[case::not_utf8(b"a: 1\nb: \xff\n".as_slice(), "f.yaml:2:4: not UTF-8 at byte offset 8; save the file as UTF-8")]
#[case::broken(b"a: [1\nb: 2", "f.yaml:2:")]
#[case::unknown_alias(b"a: *nowhere", "f.yaml:1:4: ")]
#[case::nul(b"a: \0", "f.yaml:1:")]
fn unreadable_bytes_have_a_place(#[case] bytes: &[u8], #[case] start: &str) {
    let found = faults(bytes);
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
}

#[test]
fn depth_is_limited() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse("f", nested(MAX_DEPTH).as_bytes()).is_ok());
    assert!(faults(nested(MAX_DEPTH + 1).as_bytes())[0].contains("nested deeper than 64 levels"));
}

#[test]
fn bytes_are_limited() {
    let text = |n: usize| format!("a: {}", "x".repeat(n - 3));
    assert!(parse("f", text(MAX_BYTES).as_bytes()).is_ok());
    assert!(faults(text(MAX_BYTES + 1).as_bytes())[0].contains("more than 4194304"));
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 9].join(", ");
        text.push_str(&format!("a{n}: &a{n} [{items}]\n"));
    }
    assert!(faults(text.as_bytes())[0].contains("weighs more than 16777216"));
    let long = format!(
        "a: &a {}\nb: [{}]",
        "x".repeat(1 << 20),
        vec!["*a"; 100].join(",")
    );
    assert!(faults(long.as_bytes())[0].contains("weighs more than"));
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Sample {
    name: String,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    labels: BTreeMap<String, u8>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Port {
    number: u16,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Mode {
    Fast,
    Custom { speed: u8 },
}

#[rstest]
#[case::unknown("name: a\nports:\n- number: 1\n  nmae: x\nfoo: 1\n", &[
    "f.yaml:4:3: ports[0].nmae: unknown field; known here: `number`",
    "f.yaml:5:1: foo: unknown field; known here: `name`, `ports`, `mode`, `labels`",
])]
#[case::missing("ports: [{}]\nname: a", &["f.yaml:1:9: ports[0].number: is required; add it"])]
#[case::missing_at_top("ports: []", &["f.yaml:1:1: name: is required; add it"])]
#[case::range("name: a\nports:\n  - number: 70000", &["f.yaml:3:5: ports[0].number: invalid value: integer `70000`; expected u16"])]
#[case::no_value_is_repeated("name: a\nports:\n- number: \"s3cret, expected x\"", &["f.yaml:3:3: ports[0].number: invalid type: string; expected u16"])]
#[case::variant("name: a\nmode: s3cret", &["f.yaml:2:1: mode: unknown value; write `Fast` or `Custom`"])]
#[case::in_a_variant("name: a\nmode:\n  Custom: {speed: x}", &["f.yaml:3:12: mode.Custom.speed: invalid type: string; expected u8"])]
#[case::in_a_map("name: a\nlabels:\n  a.b/c: -1", &["f.yaml:3:3: labels.a.b/c: invalid value: integer `-1`; expected u8"])]
#[case::whole("- 1", &["f.yaml:1:1: the document is not a mapping; write `key: value` lines"])]
fn a_decode_fault_names_file_line_and_field(#[case] text: &str, #[case] expected: &[&str]) {
    let found = decode::<Sample>(&one(text)).unwrap_err();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_number_of_faults_is_limited() {
    let text: String = (0..50).map(|n| format!("f{n}: 1\n")).collect();
    assert_eq!(
        decode::<Sample>(&one(&text)).unwrap_err().len(),
        MAX_DIAGNOSTICS
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse("f", &bytes);
    }

    #[test]
    fn no_text_of_yaml_characters_panics(text in "[-a1:&*!<>{}\\[\\]\"'|?%#@~, \n\t.]{0,120}") {
        let _ = parse("f", text.as_bytes());
    }

    #[test]
    fn json_means_itself(map in proptest::collection::btree_map("[a-z]{1,5}", "[ -~é\n]{0,12}", 1..6)) {
        let value = serde_json::to_value(&map).unwrap();
        prop_assert_eq!(&one(&serde_json::to_string_pretty(&map).unwrap()).value, &value);
    }
}
