//! The `status` that an object is to have.

use portcullis_index::ClusterKey;
use portcullis_index::sources::Outcome;
use serde_json::{Map, Value, json};

/// Fields that are the gateway's.
pub(crate) const FIELDS: [&str; 4] = ["exposed", "path", "error", "notices"];

/// What `status` must say. Fields without a value are left out.
#[must_use]
pub fn desired(key: &ClusterKey, outcome: &Outcome) -> Map<String, Value> {
    let mut status = Map::new();
    status.insert("exposed".to_owned(), json!(outcome.exposed));
    // A cluster that is refused answers there too: with the reason.
    if outcome.exposed || outcome.error.is_some() {
        let path = format!("/clusters/{}/{}", key.namespace, key.name);
        status.insert("path".to_owned(), json!(path));
    }
    if let Some(error) = &outcome.error {
        status.insert("error".to_owned(), json!(error));
    }
    if !outcome.notices.is_empty() {
        status.insert("notices".to_owned(), json!(outcome.notices));
    }
    status
}

/// Our fields of a status as it is; empty ones count as absent.
#[must_use]
pub fn observed(status: &Value) -> Map<String, Value> {
    let absent = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let fields = FIELDS
        .iter()
        .filter_map(|name| Some((*name, status.get(*name)?)));
    fields
        .filter(|(_, value)| !absent(value))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn outcome(exposed: bool, error: Option<&str>, notices: &[&str]) -> Outcome {
        Outcome {
            exposed,
            error: error.map(str::to_owned),
            notices: notices.iter().map(|notice| (*notice).to_owned()).collect(),
            observed: Value::Null,
        }
    }

    #[rstest]
    #[case(outcome(true, None, &[]), json!({ "exposed": true, "path": "/clusters/team/a" }))]
    #[case(outcome(true, None, &["n"]), json!({ "exposed": true, "path": "/clusters/team/a", "notices": ["n"] }))]
    #[case(outcome(false, Some("e"), &[]), json!({ "exposed": false, "path": "/clusters/team/a", "error": "e" }))]
    #[case(outcome(false, None, &[]), json!({ "exposed": false }))]
    fn a_status_says_what_became_of_an_object(#[case] outcome: Outcome, #[case] expected: Value) {
        assert_eq!(
            Value::Object(desired(&ClusterKey::new("team", "a"), &outcome)),
            expected
        );
    }

    #[rstest]
    #[case(json!(null), json!({}))]
    #[case(json!({ "exposed": true, "error": null, "notices": [], "other": 1 }), json!({ "exposed": true }))]
    fn only_our_fields_are_compared(#[case] status: Value, #[case] expected: Value) {
        assert_eq!(Value::Object(observed(&status)), expected);
    }
}
