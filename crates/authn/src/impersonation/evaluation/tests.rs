use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use portcullis_core::RequestInfo;
use rstest::rstest;

use super::super::{checks, parse};
use super::*;
use crate::access::Target;

/// Carries out a plan against a rule; returns the outcome and the questions in order.
fn decide(
    pairs: &[(&str, &str)],
    preferred: Option<Mode>,
    allowed: impl Fn(&str) -> bool,
) -> (Result<Impersonated, Error>, Vec<String>) {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            value.parse().unwrap(),
        );
    }
    let info = RequestInfo::new("GET", "/api/v1/namespaces/demo/pods", None).unwrap();
    let caller = Arc::new(UserInfo {
        username: "alice".to_owned(),
        ..UserInfo::default()
    });
    let wish = parse(&headers).unwrap().unwrap();
    let mut evaluation = checks(&wish, &info, &caller).evaluation(preferred);
    let mut asked = Vec::new();
    while let Some(check) = evaluation.next() {
        let Target::Resource(attributes) = &check.target else {
            panic!("no resource")
        };
        let question = format!("{} {} {}", check.verb, attributes.resource, attributes.name);
        let verdict = Verdict {
            allowed: allowed(&question),
            ..Verdict::default()
        };
        asked.push(question);
        evaluation.answer(&verdict);
    }
    (evaluation.outcome(), asked)
}

const AS_ADMIN: &[(&str, &str)] = &[("impersonate-user", "admin")];
const ON: &str = "impersonate-on:user-info:list pods ";
const CONSTRAINED: &str = "impersonate:user-info users admin";
const LEGACY: &str = "impersonate users admin";

#[test]
fn the_constrained_mode_alone_suffices() {
    let (outcome, asked) = decide(AS_ADMIN, None, |question| question != LEGACY);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.mode, Mode::UserInfo);
    assert_eq!(outcome.user.groups, ["system:authenticated"]);
    assert_eq!(asked, [ON, CONSTRAINED]);
}

#[test]
fn the_legacy_verb_still_suffices() {
    let (outcome, asked) = decide(AS_ADMIN, None, |question| question == LEGACY);
    assert_eq!(outcome.unwrap().mode, Mode::Legacy);
    assert_eq!(asked, [ON, LEGACY]);
}

#[test]
fn the_last_successful_mode_is_tried_first() {
    let (outcome, asked) = decide(AS_ADMIN, Some(Mode::Legacy), |question| question == LEGACY);
    assert_eq!(outcome.unwrap().mode, Mode::Legacy);
    assert_eq!(asked, [LEGACY]);
    // A mode that does not apply to the wish changes nothing.
    let (_, asked) = decide(AS_ADMIN, Some(Mode::ArbitraryNode), |_| true);
    assert_eq!(asked, [ON, CONSTRAINED]);
}

/// Recorded from kube-apiserver 1.37 as `as-forbidden`; the others follow from its source.
#[rstest]
#[case(
    None,
    false,
    "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"demo\""
)]
#[case(
    None,
    true,
    "users.authentication.k8s.io \"admin\" is forbidden: User \"alice\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
)]
#[case(
    Some(Mode::Legacy),
    false,
    "users \"admin\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
)]
fn the_caller_sees_the_refusal_of_the_first_mode(
    #[case] preferred: Option<Mode>,
    #[case] may_list: bool,
    #[case] message: &str,
) {
    let (outcome, _) = decide(AS_ADMIN, preferred, |question| may_list && question == ON);
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.status.code, error.status.message.as_str()),
        (403, message)
    );
}

#[test]
fn the_reason_of_the_authorizer_is_passed_on() {
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("impersonate-user"),
        "admin".parse().unwrap(),
    )]);
    let info = RequestInfo::new("GET", "/version", None).unwrap();
    let wish = parse(&headers).unwrap().unwrap();
    let mut evaluation = checks(&wish, &info, &Arc::default()).evaluation(Some(Mode::Legacy));
    let verdict = Verdict {
        reason: "no such rule".to_owned(),
        ..Verdict::default()
    };
    while evaluation.next().is_some() {
        evaluation.answer(&verdict);
    }
    assert!(
        evaluation
            .outcome()
            .unwrap_err()
            .status
            .message
            .ends_with("at the cluster scope: no such rule")
    );
}

#[test]
fn a_refused_wildcard_falls_back_to_each_value() {
    let pairs: Vec<_> = AS_ADMIN
        .iter()
        .copied()
        .chain(["a", "b", "c", "d"].map(|g| ("impersonate-group", g)))
        .collect();
    let (outcome, asked) = decide(&pairs, None, |question| {
        question != "impersonate:user-info groups *"
    });
    assert_eq!(outcome.unwrap().mode, Mode::UserInfo);
    assert_eq!(
        asked[2..],
        ["*", "a", "b", "c", "d"].map(|group| format!("impersonate:user-info groups {group}"))
    );
    let (outcome, asked) = decide(&pairs, None, |_| true);
    assert_eq!(
        outcome.unwrap().user.groups,
        ["a", "b", "c", "d", "system:authenticated"]
    );
    assert_eq!(asked[2..], ["impersonate:user-info groups *"]);
    let (outcome, _) = decide(&pairs, None, |question| {
        question.starts_with("impersonate") && !question.ends_with('*') && !question.ends_with('c')
    });
    assert!(
        outcome
            .unwrap_err()
            .status
            .message
            .starts_with("groups.authentication.k8s.io \"c\" is forbidden")
    );
}

#[test]
fn attack_system_masters_is_reachable_by_the_legacy_verb_only() {
    let pairs = [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
    ];
    let (outcome, _) = decide(&pairs, None, |question| {
        question.starts_with("impersonate:") || question.starts_with("impersonate-on:")
    });
    assert!(
        outcome
            .unwrap_err()
            .status
            .message
            .ends_with("impersonating the system:masters group is not allowed")
    );
    let (outcome, _) = decide(&pairs, None, |question| {
        question.starts_with("impersonate ")
    });
    assert_eq!(outcome.unwrap().mode, Mode::Legacy);
}

/// UID and extra are asked for like everything else, and nothing is left over unasked.
#[test]
fn attack_one_no_anywhere_refuses_the_whole_wish() {
    let pairs = [
        ("impersonate-user", "admin"),
        ("impersonate-uid", "0"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-scopes", "all"),
    ];
    let (_, legacy) = decide(&pairs, Some(Mode::Legacy), |question| {
        question.starts_with("impersonate ")
    });
    assert_eq!(legacy.len(), 4);
    for refused in legacy {
        let (outcome, _) = decide(&pairs, None, |question| {
            question.starts_with("impersonate ") && question != refused
        });
        assert_eq!(outcome.unwrap_err().status.code, 403, "{refused}");
    }
}

#[test]
fn attack_an_evaluation_that_is_cut_short_allows_nothing() {
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("impersonate-user"),
        "admin".parse().unwrap(),
    )]);
    let info = RequestInfo::new("GET", "/version", None).unwrap();
    let plan = checks(&parse(&headers).unwrap().unwrap(), &info, &Arc::default());
    assert_eq!(
        plan.clone()
            .evaluation(None)
            .outcome()
            .unwrap_err()
            .status
            .code,
        500
    );
    let mut evaluation = plan.evaluation(None);
    evaluation.answer(&Verdict {
        allowed: true,
        ..Verdict::default()
    });
    assert_eq!(evaluation.outcome().unwrap_err().status.code, 500);
}
