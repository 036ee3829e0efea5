//! Few words with which a structural schema is written down.

use serde_json::{Map, Value, json};

/// A schema under construction.
pub(super) struct Schema(Map<String, Value>);

/// Text.
pub(super) fn text(about: &str) -> Schema {
    typed("string", about)
}

/// One of a few words.
pub(super) fn word(about: &str, words: &[&str]) -> Schema {
    text(about).with("enum", json!(words))
}

/// true or false.
pub(super) fn boolean(about: &str) -> Schema {
    typed("boolean", about)
}

/// A whole number of a range.
pub(super) fn integer(about: &str, least: i64, most: i64) -> Schema {
    let format = if most > i64::from(i32::MAX) {
        "int64"
    } else {
        "int32"
    };
    let schema = typed("integer", about)
        .with("format", format)
        .with("minimum", least);
    if most == i64::MAX {
        schema
    } else {
        schema.with("maximum", most)
    }
}

/// A list.
pub(super) fn list(about: &str, items: Schema) -> Schema {
    typed("array", about).with("items", items.into_value())
}

/// Named fields.
pub(super) fn object<const N: usize>(about: &str, fields: [(&str, Schema); N]) -> Schema {
    let fields = fields
        .into_iter()
        .map(|(name, field)| (name.to_owned(), field.into_value()));
    typed("object", about).with("properties", fields.collect::<Map<_, _>>())
}

/// Exactly one of the named fields.
pub(super) fn one_of<const N: usize>(about: &str, variants: [(&str, Schema); N]) -> Schema {
    let choice: Vec<Value> = variants
        .iter()
        .map(|(name, _)| json!({ "required": [name] }))
        .collect();
    object(about, variants).with("oneOf", choice)
}

fn typed(kind: &str, about: &str) -> Schema {
    Schema(Map::new())
        .with("type", kind)
        .with("description", about)
}

impl Schema {
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(super) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value)
    }

    /// The only value that has a meaning.
    pub(super) fn only(self, value: impl Into<Value>) -> Self {
        self.with("enum", vec![value.into()])
    }

    pub(super) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", pattern)
    }

    /// Least length of text.
    pub(super) fn least(self, least: usize) -> Self {
        self.with("minLength", least)
    }

    /// Most characters of text, most items of a list.
    pub(super) fn at_most(self, most: usize) -> Self {
        let is_list = self.0.get("type").is_some_and(|kind| kind == "array");
        self.with(if is_list { "maxItems" } else { "maxLength" }, most)
    }

    /// Each item once.
    pub(super) fn set(self) -> Self {
        self.with("x-kubernetes-list-type", "set")
    }

    pub(super) fn required(self, names: &[&str]) -> Self {
        self.with("required", json!(names))
    }

    /// Adds a CEL rule.
    pub(super) fn rule(mut self, rule: &str, message: &str) -> Self {
        let rules = self
            .0
            .entry("x-kubernetes-validations")
            .or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(json!({ "rule": rule, "message": message }));
        }
        self
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }
}
