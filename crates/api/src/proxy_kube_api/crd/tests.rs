use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use portcullis_core::yaml::decode_value;

use super::*;
use crate::ProxyKubeApi;

/// An object that has every field of the schema; of alternatives the one numbered `choice`.
fn sample(schema: &Value, choice: usize) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str().unwrap() {
        "object" => {
            let fields = schema["properties"].as_object().unwrap();
            let chosen = schema["oneOf"]
                .as_array()
                .map(|of| of[choice % of.len()]["required"][0].clone());
            let wanted = |name: &&String| chosen.as_ref().is_none_or(|c| *c == **name);
            let one = |name: &String| (name.clone(), sample(&fields[name], choice));
            Value::Object(fields.keys().filter(wanted).map(one).collect())
        }
        "array" => json!([sample(&schema["items"], choice)]),
        "string" => json!("x"),
        "integer" => schema["minimum"].clone(),
        "boolean" => json!(true),
        other => panic!("{other}"),
    }
}

fn schema_of_spec() -> Value {
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

fn whole(spec: &Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "x" }, "spec": spec })
}

/// The names in backquotes.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Puts something unknown at every place of `spec` and compares what the types know there with
/// what the schema knows.
fn compare(spec: &Value, at: &str, schema: &Value) {
    let with = |put: Value| {
        let mut spec = spec.clone();
        *spec.pointer_mut(at).unwrap() = put;
        decode_value::<ProxyKubeApi>(&whole(&spec)).unwrap_err()[0]
            .remedy
            .clone()
    };
    let here = spec.pointer(at).unwrap();
    if let Some(words) = schema["enum"]
        .as_array()
        .filter(|words| words[0].is_string())
    {
        let expected = words
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(quoted(&with(json!("unknown"))), expected, "{at}");
    }
    if let Some(fields) = schema["properties"].as_object() {
        let unknown = json!({ "unknown": 1 });
        let known = if schema.get("oneOf").is_some() {
            with(unknown)
        } else {
            let mut more = here.clone();
            more["unknown"] = json!(1);
            with(more)
        };
        assert_eq!(quoted(&known), fields.keys().cloned().collect(), "{at}");
        for (name, field) in fields
            .iter()
            .filter(|(name, _)| here.get(name.as_str()).is_some())
        {
            compare(spec, &format!("{at}/{name}"), field);
        }
    }
    if schema["type"] == "array" {
        compare(spec, &format!("{at}/0"), &schema["items"]);
    }
}

#[test]
fn schema_and_types_have_the_same_fields_and_words() {
    let schema = schema_of_spec();
    // Six alternatives at most (`cert`).
    for choice in 0..6 {
        let spec = sample(&schema, choice);
        let decoded = decode_value::<ProxyKubeApi>(&whole(&spec));
        assert!(decoded.is_ok(), "{choice}: {:?}", decoded.unwrap_err());
        compare(&spec, "", &schema);
    }
}

/// What apiextensions demands of a structural schema, as far as ours could break it.
#[test]
fn the_schema_is_structural() {
    fn walk(schema: &Value, at: &str) {
        let schema = schema
            .as_object()
            .unwrap_or_else(|| panic!("{at} is no schema"));
        assert!(schema.contains_key("type"), "{at} has no type");
        assert!(
            schema["description"]
                .as_str()
                .is_some_and(|d| d.ends_with('.')),
            "{at}"
        );
        if let Some(default) = schema.get("default") {
            let fits = match schema["type"].as_str().unwrap() {
                "boolean" => default.is_boolean(),
                "string" => default.is_string(),
                "integer" => default.is_i64(),
                "array" => default.is_array(),
                _ => false,
            };
            assert!(fits, "{at} has an odd default");
        }
        if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
            for required in schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                assert!(
                    fields.contains_key(required.as_str().unwrap()),
                    "{at} requires {required}"
                );
            }
            for (name, field) in fields {
                walk(field, &format!("{at}.{name}"));
            }
        }
        if let Some(items) = schema.get("items") {
            walk(items, &format!("{at}[]"));
        }
    }
    walk(&root().into_value(), "");
}

/// Writes the file anew when UPDATE=1 is set.
#[test]
fn the_committed_definition_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds/proxykubeapis.yaml");
    let generated = format!(
        "# Generated from crates/api; `UPDATE=1 cargo test -p portcullis-api` writes it.\n{}",
        yaml(&crd())
    );
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is out of date: run with UPDATE=1",
        path.display()
    );
    let read = portcullis_core::yaml::parse("crd", committed.as_bytes()).unwrap();
    assert_eq!(read[0].value, crd());
}

/// Block style; every text is in double quotes, which JSON and YAML write alike.
fn yaml(value: &Value) -> String {
    fn block(value: &Value, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    out.push_str(&format!("{pad}{name}:"));
                    nested(field, indent + 2, out);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    let mut text = String::new();
                    nested_item(item, indent + 2, &mut text);
                    out.push_str(&format!("{pad}- {text}"));
                }
            }
            other => out.push_str(&format!("{pad}{other}\n")),
        }
    }
    fn is_block(value: &Value) -> bool {
        value.as_object().is_some_and(|o| !o.is_empty())
            || value.as_array().is_some_and(|a| !a.is_empty())
    }
    fn nested(value: &Value, indent: usize, out: &mut String) {
        if is_block(value) {
            out.push('\n');
            block(value, indent, out);
        } else {
            out.push_str(&format!(" {value}\n"));
        }
    }
    fn nested_item(value: &Value, indent: usize, out: &mut String) {
        let mut text = String::new();
        block(value, indent, &mut text);
        out.push_str(text.trim_start());
    }
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}
