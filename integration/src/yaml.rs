//! JSON values written as block YAML, so that what a rig leaves behind reads like what people write.

use serde_json::Value;

/// The document as YAML, with a final newline.
pub(crate) fn to_string(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                out.push_str(&scalar(&Value::from(key.as_str())));
                out.push(':');
                nested(value, indent + 2, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                block(item, indent + 2, out);
            }
        }
        Value::String(text) if text.ends_with('\n') && !text.starts_with([' ', '\n']) => {
            out.push_str("|\n");
            for line in text.lines() {
                pad(indent, out);
                out.push_str(line);
                out.push('\n');
            }
        }
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
}

fn nested(value: &Value, indent: usize, out: &mut String) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        pad(indent, out);
    } else {
        out.push(' ');
    }
    block(value, indent, out);
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        // JSON's quoted strings, numbers and empty collections mean the same in YAML.
        other => other.to_string(),
    }
}

/// Whether YAML reads the unquoted text as this very string.
fn is_plain(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn reads_as_people_write() {
        let text = super::to_string(&json!({
            "kind": "X", "spec": {"hosts": ["a.test", {"b": 1, "c": []}], "empty": {}, "no": "no",
            "pem": "-----BEGIN\nx\n", "url": "https://127.0.0.1:1/a", "on": true}
        }));
        let expected = r#"kind: X
spec:
  hosts:
    - a.test
    - b: 1
      c: []
  empty: {}
  "no": "no"
  pem: |
    -----BEGIN
    x
  url: "https://127.0.0.1:1/a"
  "on": true
"#;
        assert_eq!(text, expected);
    }
}
