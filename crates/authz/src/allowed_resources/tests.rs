use portcullis_core::{RequestInfo, UserInfo};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn path(path: &str) -> Rule {
    Rule::Path {
        path: path.to_owned(),
        parametised: false,
    }
}

fn glob(path: &str) -> Rule {
    Rule::Path {
        path: path.to_owned(),
        parametised: true,
    }
}

fn crd(kind: &str, namespaced: bool, namespace: Option<NamespaceRule>) -> Rule {
    Rule::Crd {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: None,
        namespaced,
        namespace,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn alice() -> UserInfo {
    UserInfo {
        username: "alice".to_owned(),
        groups: names(&["devs", "system:authenticated"]),
        ..UserInfo::default()
    }
}

/// The decision on a GET of `path`, which is decoded already.
fn allows(rules: Vec<Rule>, path: &str, user: Option<&UserInfo>) -> bool {
    let info = RequestInfo::new("GET", path, None).unwrap();
    AllowedResources::new(rules)
        .unwrap()
        .allows(path, &info, user)
}

#[test]
fn an_empty_list_allows_everything() {
    assert!(allows(vec![], "/api/v1/secrets", None));
}

#[rstest]
#[case("/api/v1/pods", true)]
#[case("/api/v1/pods/", true)]
#[case("/api/v1/pods/x", false)]
#[case("/api/v1/pod", false)]
#[case("/api/v1", false)]
#[case("/API/v1/pods", false)]
fn an_exact_path_matches_itself_and_its_trailing_slash(
    #[case] request: &str,
    #[case] expected: bool,
) {
    assert_eq!(allows(vec![path("/api/v1/pods")], request, None), expected);
}

#[test]
fn the_root_path_is_a_path_like_any_other() {
    assert!(allows(vec![path("/")], "/", None));
    assert!(!allows(vec![path("/")], "/api", None));
}

#[test]
fn one_rule_of_many_suffices() {
    let rules = || vec![path("/version"), path("/api/v1/namespaces")];
    assert!(allows(rules(), "/version", None));
    assert!(allows(rules(), "/api/v1/namespaces", None));
    assert!(!allows(
        rules(),
        "/apis/project.openshift.io/v1/projects",
        None
    ));
}

#[rstest]
#[case("/api/v1/namespaces/*/pods", "/api/v1/namespaces/a/pods", true)]
#[case("/api/v1/namespaces/*/pods", "/api/v1/namespaces/a/b/pods", false)]
#[case("/api/v1/namespaces/*/pods", "/api/v1/namespaces//pods", false)]
#[case("/api/v1/namespaces/*/pods", "/api/v1/namespaces/a/pods/x", false)]
#[case(
    "/api/v1/namespaces/team-*/pods",
    "/api/v1/namespaces/team-a/pods",
    true
)]
#[case(
    "/api/v1/namespaces/team-*/pods",
    "/api/v1/namespaces/xteam-a/pods",
    false
)]
#[case("/x/a*b*c", "/x/abc", true)]
#[case("/x/a*b*c", "/x/a1b2b3c", true)]
#[case("/x/a*b*c", "/x/ac", false)]
#[case("/x/a*a", "/x/a", false)]
#[case("/api/**", "/api/v1/pods/x", true)]
#[case("/api/**", "/api/v1", true)]
#[case("/api/**", "/api", false)]
#[case("/api/**", "/api/", false)]
#[case("/api/**", "/apis/apps", false)]
#[case("/**", "/anything/at/all", true)]
#[case("/api/v1/namespaces/dev/**", "/api/v1/namespaces/dev", false)]
fn wildcards_stay_in_their_segment_and_the_rest_is_not_empty(
    #[case] rule: &str,
    #[case] request: &str,
    #[case] expected: bool,
) {
    assert_eq!(allows(vec![glob(rule)], request, None), expected);
}

#[rstest]
#[case("/ns/{{username}}/pods", "/ns/alice/pods", true)]
#[case("/ns/{{ username }}/pods", "/ns/alice/pods", true)]
#[case("/ns/{{username}}/pods", "/ns/bob/pods", false)]
#[case("/ns/home-{{username}}-*/pods", "/ns/home-alice-1/pods", true)]
#[case("/ns/home-{{username}}-*/pods", "/ns/home-alicea-1/pods", false)]
#[case("/ns/{{group}}/pods", "/ns/devs/pods", true)]
#[case("/ns/{{group}}/pods", "/ns/ops/pods", false)]
#[case("/ns/{{group}}/cm/{{group}}", "/ns/devs/cm/devs", true)]
#[case(
    "/ns/{{group}}/cm/{{group}}",
    "/ns/devs/cm/system:authenticated",
    false
)]
#[case("/ns/{{group}}/cm/{{username}}", "/ns/devs/cm/alice", true)]
fn placeholders_stand_for_the_caller(
    #[case] rule: &str,
    #[case] request: &str,
    #[case] expected: bool,
) {
    assert_eq!(allows(vec![glob(rule)], request, Some(&alice())), expected);
}

#[test]
fn placeholders_match_nothing_when_nobody_checked_the_caller() {
    assert!(!allows(vec![glob("/ns/{{username}}")], "/ns/alice", None));
    assert!(!allows(vec![glob("/ns/{{group}}")], "/ns/devs", None));
    assert!(allows(
        vec![glob("/ns/{{username}}"), path("/version")],
        "/version",
        None
    ));
}

/// A user name is chosen by whoever runs the identity provider's sign-up form.
#[rstest]
#[case::a_wildcard("*", "/ns/kube-system")]
#[case::a_wildcard_itself("*", "/ns/*")]
#[case::a_part_wildcard("a*", "/ns/abc")]
#[case::a_separator("alice/secrets", "/ns/alice/secrets")]
#[case::nothing("", "/ns/")]
#[case::a_traversal("..", "/ns/..")]
#[case::another_placeholder("{{group}}", "/ns/devs")]
fn attack_a_user_name_that_is_a_pattern_matches_nothing(#[case] name: &str, #[case] request: &str) {
    let user = UserInfo {
        username: name.to_owned(),
        ..alice()
    };
    assert!(!allows(
        vec![glob("/ns/{{username}}")],
        request,
        Some(&user)
    ));
    let user = UserInfo {
        groups: vec![name.to_owned()],
        ..alice()
    };
    // The group `{{group}}` would be a legitimate literal match of itself only.
    assert!(!allows(vec![glob("/ns/{{group}}")], request, Some(&user)));
}

#[rstest]
#[case("/api/v1/namespaces/dev/../kube-system/secrets")]
#[case("/api/v1/namespaces/dev/./secrets")]
#[case("/api/v1/namespaces/dev/%2e%2e/kube-system")]
#[case("/api/v1/namespaces/dev/%2E./kube-system")]
#[case("/api/v1/namespaces/dev%2fsecrets")]
#[case("/api/v1/namespaces/dev/..%5Ckube-system")]
#[case("/api/v1/namespaces/dev\\..\\kube-system")]
#[case("/api/v1/namespaces/dev/..;x/kube-system")]
#[case("/api/v1/namespaces/dev/\0/secrets")]
#[case("/..")]
fn attack_traversal_segments_match_no_rule_but_those_of_an_empty_list(#[case] request: &str) {
    let info = RequestInfo::new("GET", request, None).unwrap();
    let list = AllowedResources::new(vec![glob("/**"), path("/version")]).unwrap();
    assert!(!list.allows(request, &info, None));
}

#[test]
fn attack_a_path_and_a_reading_that_differ_are_not_trusted() {
    let info = RequestInfo::new("GET", "/apis/apps/v1/namespaces/a/deployments/..", None).unwrap();
    let list = AllowedResources::new(vec![crd("Deployment", true, None)]).unwrap();
    assert!(!list.allows("/apis/apps/v1/namespaces/a/deployments", &info, None));
}

#[rstest]
#[case("/apis/apps/v1/deployments", true)]
#[case("/apis/apps/v1/namespaces/a/deployments", true)]
#[case("/apis/apps/v1/namespaces/a/deployments/", true)]
#[case("/apis/apps/v1/namespaces/a/deployments/x", true)]
#[case("/apis/apps/v1/namespaces/a/deployments/x/scale", true)]
#[case("/apis/apps/v1/watch/namespaces/a/deployments", true)]
#[case("/apis/apps/v1/namespaces/a/replicasets", false)]
#[case("/apis/apps/v1beta1/namespaces/a/deployments", false)]
#[case("/apis/extensions/v1/namespaces/a/deployments", false)]
#[case("/apis/apps/v1", false)]
#[case("/api/v1/namespaces/a/deployments", false)]
#[case("/apis/apps/v1/namespaces//deployments", false)]
#[case("/apis/apps/v1/deployments//x", false)]
#[case("/apis/apps/v1/namespaces/deployments", false)]
fn a_resource_is_matched_on_all_its_paths_and_no_other(
    #[case] request: &str,
    #[case] expected: bool,
) {
    assert_eq!(
        allows(vec![crd("Deployment", true, None)], request, None),
        expected
    );
}

#[rstest]
#[case("/apis/apps/v1/deployments", false)]
#[case("/apis/apps/v1/namespaces/a/deployments", true)]
#[case("/apis/apps/v1/namespaces/a/deployments/x", true)]
#[case("/apis/apps/v1/namespaces/b/deployments", false)]
fn allowed_namespaces_exclude_others_and_the_list_across_all(
    #[case] request: &str,
    #[case] expected: bool,
) {
    let rule = NamespaceRule::AllowedNamespaces(names(&["a", "c"]));
    assert_eq!(
        allows(vec![crd("Deployment", true, Some(rule))], request, None),
        expected
    );
}

#[rstest]
#[case("/apis/apps/v1/deployments", false)]
#[case("/apis/apps/v1/namespaces/a/deployments", true)]
#[case("/apis/apps/v1/namespaces/kube-system/deployments", false)]
fn denied_namespaces_are_not_reached_by_the_list_across_all(
    #[case] request: &str,
    #[case] expected: bool,
) {
    let rule = NamespaceRule::DeniedNamespaces(names(&["kube-system"]));
    assert_eq!(
        allows(vec![crd("Deployment", true, Some(rule))], request, None),
        expected
    );
}

#[rstest]
#[case("/apis/apps/v1/deployments", false)]
#[case("/apis/apps/v1/namespaces/alice-1/deployments", true)]
#[case("/apis/apps/v1/namespaces/bob-1/deployments", false)]
fn a_namespace_pattern_follows_the_caller(#[case] request: &str, #[case] expected: bool) {
    let rule = NamespaceRule::ParametisedRule("{{username}}-*".to_owned());
    assert_eq!(
        allows(
            vec![crd("Deployment", true, Some(rule))],
            request,
            Some(&alice())
        ),
        expected
    );
}

#[test]
fn a_cluster_scoped_resource_has_no_namespaced_path() {
    let rules = || vec![crd("Node", false, None)];
    assert!(allows(rules(), "/apis/apps/v1/nodes/n1", None));
    assert!(!allows(rules(), "/apis/apps/v1/namespaces/a/nodes", None));
}

#[rstest]
#[case(false, None, "/api/v1/namespaces", true)]
#[case(false, None, "/api/v1/namespaces/a", true)]
#[case(false, None, "/api/v1/namespaces/a/finalize", true)]
#[case(false, None, "/api/v1/namespaces/a/pods", false)]
#[case(true, Some("a"), "/api/v1/namespaces/a", true)]
#[case(true, Some("a"), "/api/v1/namespaces/b", false)]
#[case(true, Some("a"), "/api/v1/namespaces", false)]
fn namespaces_themselves_are_objects_too(
    #[case] namespaced: bool,
    #[case] only: Option<&str>,
    #[case] request: &str,
    #[case] expected: bool,
) {
    let rule = Rule::Crd {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        plural: None,
        namespaced,
        namespace: only.map(|only| NamespaceRule::AllowedNamespaces(names(&[only]))),
    };
    assert_eq!(allows(vec![rule], request, None), expected);
}

#[rstest]
#[case(path("api"), "start with '/'")]
#[case(path("/a/*"), "set parametised: true")]
#[case(path("/a/{{username}}"), "set parametised: true")]
#[case(path("/a/../b"), "'..' segment")]
#[case(path("/a//b"), "empty")]
#[case(path("/a?x=1"), "query")]
#[case(glob("/a/{{user}}"), "only {{username}} and {{group}} exist")]
#[case(glob("/a/{{username"), "unknown placeholder")]
#[case(glob("/a/**/b"), "whole last segment")]
#[case(glob("/a/x**"), "whole last segment")]
#[case(crd("", true, None), "set plural")]
#[case(crd("Node", false, Some(NamespaceRule::DeniedNamespaces(vec![]))), "cluster-scoped")]
#[case(crd("Pod", true, Some(NamespaceRule::AllowedNamespaces(vec![]))), "at least one namespace")]
#[case(crd("Pod", true, Some(NamespaceRule::AllowedNamespaces(vec!["a-*".to_owned()]))), "ParametisedRule")]
#[case(crd("Pod", true, Some(NamespaceRule::ParametisedRule("a/b".to_owned()))), "one path segment")]
fn a_rule_that_cannot_be_meant_names_its_place_and_remedy(#[case] rule: Rule, #[case] text: &str) {
    let error = AllowedResources::new(vec![path("/version"), rule]).unwrap_err();
    assert_eq!(error.index, 1);
    let shown = error.to_string();
    assert!(
        shown.starts_with("allowed_resources[1]: ") && shown.contains(text),
        "{shown}"
    );
}

#[test]
fn the_number_of_rules_is_bounded() {
    assert!(AllowedResources::new(vec![path("/x"); MAX_RULES]).is_ok());
    assert!(AllowedResources::new(vec![path("/x"); MAX_RULES + 1]).is_err());
}

#[test]
fn the_length_of_a_path_is_bounded() {
    let long = |n: usize| path(&format!("/{}", "x".repeat(n - 1)));
    assert!(AllowedResources::new(vec![long(MAX_PATTERN_BYTES)]).is_ok());
    assert!(AllowedResources::new(vec![long(MAX_PATTERN_BYTES + 1)]).is_err());
}

proptest! {
    #[test]
    fn an_exact_rule_matches_exactly_its_own_path(a in "(/[a-z]{1,3}){1,4}", b in "(/[a-z]{1,3}){1,4}") {
        prop_assert_eq!(allows(vec![path(&a)], &b, None), a == b);
    }

    #[test]
    fn a_star_matches_as_a_naive_matcher_does(pattern in "[ab*]{1,8}", text in "[ab]{1,8}") {
        prop_assume!(!pattern.contains("**"));
        let expected = naive(pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(allows(vec![glob(&format!("/{pattern}"))], &format!("/{text}"), None), expected);
    }

    #[test]
    fn no_input_panics(rule in "\\PC{0,20}", request in "/\\PC{0,20}", name in "\\PC{0,10}") {
        let user = UserInfo { username: name.clone(), groups: vec![name], ..UserInfo::default() };
        if let (Ok(list), Ok(info)) = (
            AllowedResources::new(vec![glob(&format!("/{rule}"))]),
            RequestInfo::new("GET", &request, None),
        ) {
            let _ = list.allows(&request, &info, Some(&user));
        }
    }
}

fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            naive(rest, text) || (!text.is_empty() && naive(pattern, &text[1..]))
        }
        ([p, rest @ ..], [t, tail @ ..]) => p == t && naive(rest, tail),
        _ => false,
    }
}
