//! Takes from an output what differs from run to run: times, ages, versions, random names, ports.

use std::sync::LazyLock;

use integration::{Context, Result};
use regex::Regex;

/// Names that only one side uses.
pub(super) struct Own {
    pub namespace: String,
    pub project: String,
}

static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (
            r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
            "TIME",
        ),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "UID",
        ),
        (r#"((?i)resource ?version"?:\s*"?)\d+"#, "${1}RV"),
        (r"/(LIVE|MERGED)-\d+/", "/$1/"),
        (r"\bd1-[0-9a-z]{8,10}(-[0-9a-z]{5})?\b", "d1-HASH"),
        (r"(127\.0\.0\.1|\[::1\]):\d+", "$1:PORT"),
        (r"(Handling connection for|->) \d+", "$1 PORT"),
        (r"p0:\d+/proxy", "p0:PORT/proxy"),
        // Ages in tables: `5m35s`, alone in their column.
        (r"(?m)([ \t(])(\d+[dhms]){1,3}([ \t)]|$)", "${1}AGE$3"),
        // Columns are as wide as what is in them.
        (r" {2,}", "  "),
        (r"(?m)[ \t]+$", ""),
    ];
    rules
        .iter()
        .map(|(r, with)| (Regex::new(r).unwrap(), *with))
        .collect()
});

/// The text as it is on every run and on every side.
pub(super) fn text(text: &str, own: Option<&Own>, only: Option<&str>) -> String {
    let mut text = match own {
        Some(own) => text
            .replace(&own.namespace, "NS")
            .replace(&own.project, "PROJECT"),
        None => text.to_owned(),
    };
    for (pattern, with) in VOLATILE.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    let Some(only) = only else { return text };
    let only = Regex::new(only).unwrap();
    let matching = text.lines().filter(|l| only.is_match(l));
    let mut lines: Vec<String> = matching.map(in_order).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn in_order(line: &str) -> String {
    let mut words: Vec<&str> = line
        .split([' ', '[', ']'])
        .filter(|w| !w.is_empty())
        .collect();
    words.sort_unstable();
    words.join(" ")
}

/// The text up to the end of the first match.
pub(super) fn up_to(text: &str, pattern: &str) -> Result<String> {
    let regex = Regex::new(pattern).context(format!("the pattern {pattern}"))?;
    let end = regex.find(text).map(|m| m.end());
    let end = end.context(format!("standard output has no {pattern}: {text}"))?;
    Ok(text[..end].to_owned())
}

#[test]
fn what_matters_stays() {
    let own = Own {
        namespace: "parity-a".into(),
        project: "prj-a".into(),
    };
    let table =
        "NAME   READY   AGE\np0     1/1     5m35s\nd1-6fb55fc48f-mhjgm   0/1   3s (2s ago)\n";
    let expected = "NAME  READY  AGE\np0  1/1  AGE\nd1-HASH  0/1  AGE (AGE ago)\n";
    assert_eq!(text(table, Some(&own), None), expected);
    let json = "\"resourceVersion\": \"123\", \"uid\": \"01234567-89ab-cdef-0123-456789abcdef\"";
    assert_eq!(
        text(json, None, None),
        "\"resourceVersion\": \"RV\", \"uid\": \"UID\""
    );
    let refusal = "User \"bob\" cannot list pods in the namespace \"parity-a\"";
    assert_eq!(
        text(refusal, Some(&own), None),
        refusal.replace("parity-a", "NS")
    );
}
