use rstest::rstest;

use super::*;

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn wish(name: &str, groups: &[&str], extra: &[(&str, &[&str])]) -> Impersonation {
    Impersonation(UserInfo {
        username: name.to_owned(),
        groups: strings(groups),
        extra: extra
            .iter()
            .map(|(key, values)| ((*key).to_owned(), strings(values)))
            .collect(),
        ..UserInfo::default()
    })
}

fn caller(name: &str, extra: &[(&str, &[&str])]) -> Arc<UserInfo> {
    Arc::new(wish(name, &[], extra).0)
}

fn list_pods() -> RequestInfo {
    RequestInfo::new("GET", "/api/v1/namespaces/demo/pods", None).unwrap()
}

/// `verb group/resource/subresource ns=namespace name`, or `verb path`.
fn show(check: &AccessCheck) -> String {
    match &check.target {
        Target::NonResource { path } => format!("{} {path}", check.verb),
        Target::Resource(a) => {
            format!(
                "{} {}/{}/{} ns={} {}",
                check.verb, a.group, a.resource, a.subresource, a.namespace, a.name
            )
        }
    }
}

fn shown(plan: &Plan, mode: Mode) -> Vec<String> {
    let attempt = plan
        .attempts
        .iter()
        .find(|attempt| attempt.mode == mode)
        .unwrap();
    attempt
        .steps
        .iter()
        .map(|step| match step {
            Step::Check(check) => show(check),
            Step::AllOrEach { all, each } => {
                let each: Vec<String> = each.iter().map(show).collect();
                format!("{} OR {}", show(all), each.join(" AND "))
            }
            Step::Refuse(error) => format!("REFUSE {}", error.status.message),
        })
        .collect()
}

fn modes(plan: &Plan) -> Vec<&'static str> {
    plan.attempts
        .iter()
        .map(|attempt| attempt.mode.as_str())
        .collect()
}

#[test]
fn an_ordinary_user_is_checked_for_the_request_and_for_each_attribute() {
    let mut wish = wish(
        "zoe",
        &["devs", "ops", "devs"],
        &[("acme.io/k", &["v", "w"])],
    );
    wish.0.uid = "u-1".to_owned();
    let plan = checks(&wish, &list_pods(), &caller("alice", &[]));
    assert_eq!(modes(&plan), ["user-info", "legacy"]);
    assert_eq!(
        shown(&plan, Mode::UserInfo),
        [
            "impersonate-on:user-info:list /pods/ ns=demo ",
            "impersonate:user-info authentication.k8s.io/users/ ns= zoe",
            "impersonate:user-info authentication.k8s.io/uids/ ns= u-1",
            "impersonate:user-info authentication.k8s.io/groups/ ns= devs",
            "impersonate:user-info authentication.k8s.io/groups/ ns= ops",
            "impersonate:user-info authentication.k8s.io/userextras/acme.io/k ns= v",
            "impersonate:user-info authentication.k8s.io/userextras/acme.io/k ns= w",
        ]
    );
    assert_eq!(
        shown(&plan, Mode::Legacy),
        [
            "impersonate /users/ ns= zoe",
            "impersonate authentication.k8s.io/uids/ ns= u-1",
            "impersonate /groups/ ns= devs",
            "impersonate /groups/ ns= ops",
            "impersonate authentication.k8s.io/userextras/acme.io/k ns= v",
            "impersonate authentication.k8s.io/userextras/acme.io/k ns= w",
        ]
    );
}

#[test]
fn a_service_account_alone_has_a_mode_of_its_own() {
    let name = "system:serviceaccount:ci:deployer";
    let plan = checks(&wish(name, &[], &[]), &list_pods(), &caller("alice", &[]));
    assert_eq!(modes(&plan), ["serviceaccount", "legacy"]);
    assert_eq!(
        shown(&plan, Mode::ServiceAccount),
        [
            "impersonate-on:serviceaccount:list /pods/ ns=demo ",
            "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ ns=ci deployer",
        ]
    );
    assert_eq!(
        shown(&plan, Mode::Legacy),
        ["impersonate /serviceaccounts/ ns=ci deployer"]
    );
    let plan = checks(
        &wish(name, &["g"], &[]),
        &list_pods(),
        &caller("alice", &[]),
    );
    assert_eq!(modes(&plan), ["legacy"]);
}

#[test]
fn a_node_is_a_node_only_in_the_constrained_modes() {
    let plan = checks(
        &wish("system:node:n1", &[], &[]),
        &list_pods(),
        &caller("alice", &[]),
    );
    assert_eq!(modes(&plan), ["arbitrary-node", "legacy"]);
    assert_eq!(
        shown(&plan, Mode::ArbitraryNode),
        [
            "impersonate-on:arbitrary-node:list /pods/ ns=demo ",
            "impersonate:arbitrary-node authentication.k8s.io/nodes/ ns= n1",
        ]
    );
    assert_eq!(
        shown(&plan, Mode::Legacy),
        ["impersonate /users/ ns= system:node:n1"]
    );
    let not_a_node = checks(
        &wish("system:node:N1", &[], &[]),
        &list_pods(),
        &caller("alice", &[]),
    );
    assert_eq!(modes(&not_a_node), ["user-info", "legacy"]);
}

#[rstest]
#[case("system:serviceaccount:a:agent", &["n1"], true)]
#[case("system:serviceaccount:a:agent", &["n2"], false)]
#[case("system:serviceaccount:a:agent", &["n1", "n1"], false)]
#[case("system:serviceaccount:a:agent", &[], false)]
#[case("alice", &["n1"], false)]
fn a_service_account_may_have_a_node_of_its_own(
    #[case] name: &str,
    #[case] bound_to: &[&str],
    #[case] associated: bool,
) {
    let caller = caller(name, &[(NODE_NAME_KEY, bound_to), ("other", &["x"])]);
    let plan = checks(&wish("system:node:n1", &[], &[]), &list_pods(), &caller);
    assert_eq!(modes(&plan).contains(&"associated-node"), associated);
    if associated {
        assert_eq!(
            shown(&plan, Mode::AssociatedNode),
            [
                "impersonate-on:associated-node:list /pods/ ns=demo ",
                "impersonate:associated-node authentication.k8s.io/nodes/ ns= *",
            ]
        );
        let Some(Step::Check(check)) = plan.attempts[0].steps.front() else {
            panic!("no check")
        };
        let keys = strings(&[NODE_NAME_KEY, "other"]);
        assert_eq!(
            check.user.extra,
            BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)])
        );
    }
}

#[test]
fn many_values_are_first_asked_for_at_once_but_not_in_the_legacy_mode() {
    let three = checks(
        &wish("zoe", &["a", "b", "c"], &[]),
        &list_pods(),
        &caller("alice", &[]),
    );
    assert!(!shown(&three, Mode::UserInfo).concat().contains(" OR "));
    let groups = &["a", "b", "c", "c"];
    let extra: &[(&str, &[&str])] = &[("x.io/k", &["1", "2"]), ("x.io/l", &["1", "2"])];
    let plan = checks(
        &wish("zoe", groups, extra),
        &list_pods(),
        &caller("alice", &[]),
    );
    let user_info = shown(&plan, Mode::UserInfo);
    assert_eq!(
        user_info[2],
        "impersonate:user-info authentication.k8s.io/groups/ ns= * OR \
         impersonate:user-info authentication.k8s.io/groups/ ns= a AND \
         impersonate:user-info authentication.k8s.io/groups/ ns= b AND \
         impersonate:user-info authentication.k8s.io/groups/ ns= c"
    );
    assert!(
        user_info[3]
            .starts_with("impersonate:user-info authentication.k8s.io/userextras/* ns= * OR ")
    );
    assert!(!shown(&plan, Mode::Legacy).concat().contains(" OR "));
}

#[rstest]
#[case(&["system:masters"], &[], "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"alice\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed")]
#[case(&["a", ""], &[], "groups.authentication.k8s.io is forbidden: User \"alice\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the empty string group is not allowed")]
#[case(&[], &[("scopes", &["a"][..])], "userextras.authentication.k8s.io is forbidden: User \"alice\" cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a domain-prefixed path (such as \"acme.io/foo\")")]
fn constrained_modes_refuse_what_only_the_legacy_one_takes(
    #[case] groups: &[&str],
    #[case] extra: &[(&str, &[&str])],
    #[case] message: &str,
) {
    let plan = checks(
        &wish("zoe", groups, extra),
        &list_pods(),
        &caller("alice", &[]),
    );
    let steps = shown(&plan, Mode::UserInfo);
    assert_eq!(steps.last().unwrap(), &format!("REFUSE {message}"));
    assert!(!shown(&plan, Mode::Legacy).concat().contains("REFUSE"));
}

#[test]
fn the_question_about_the_request_has_its_selectors_or_its_path() {
    let query = Some("labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn");
    let info = RequestInfo::new("GET", "/api/v1/pods", query).unwrap();
    let plan = checks(&wish("zoe", &[], &[]), &info, &caller("alice", &[]));
    let Some(Step::Check(check)) = plan.attempts[0].steps.front() else {
        panic!("no check")
    };
    let Target::Resource(attributes) = &check.target else {
        panic!("no resource")
    };
    assert_eq!(attributes.label_selector.as_deref(), Some("a=b"));
    assert_eq!(
        attributes.field_selector.as_deref(),
        Some("spec.nodeName=n")
    );
    let info = RequestInfo::new("GET", "/version", None).unwrap();
    let plan = checks(&wish("zoe", &[], &[]), &info, &caller("alice", &[]));
    assert_eq!(
        shown(&plan, Mode::UserInfo)[0],
        "impersonate-on:user-info:get /version"
    );
}

#[rstest]
#[case("zoe", &[], Mode::UserInfo, &["system:authenticated"])]
#[case("zoe", &["devs"], Mode::Legacy, &["devs", "system:authenticated"])]
#[case("zoe", &["system:authenticated", "devs"], Mode::Legacy, &["system:authenticated", "devs"])]
#[case("zoe", &["system:unauthenticated"], Mode::Legacy, &["system:unauthenticated"])]
#[case("system:anonymous", &[], Mode::UserInfo, &["system:unauthenticated"])]
#[case("system:anonymous", &["system:authenticated"], Mode::UserInfo, &["system:authenticated", "system:unauthenticated"])]
#[case("system:serviceaccount:a:b", &[], Mode::ServiceAccount,
    &["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"])]
#[case("system:serviceaccount:a:b", &[], Mode::Legacy,
    &["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"])]
#[case("system:serviceaccount:a:b", &["g"], Mode::Legacy, &["g", "system:authenticated"])]
#[case("system:serviceaccount:A:b", &[], Mode::Legacy, &["system:authenticated"])]
#[case("system:node:n1", &[], Mode::ArbitraryNode, &["system:nodes", "system:authenticated"])]
#[case("system:node:n1", &[], Mode::AssociatedNode, &["system:nodes", "system:authenticated"])]
#[case("system:node:n1", &[], Mode::Legacy, &["system:authenticated"])]
fn groups_are_implied_as_upstream_implies_them(
    #[case] name: &str,
    #[case] groups: &[&str],
    #[case] mode: Mode,
    #[case] expected: &[&str],
) {
    assert_eq!(
        effective_user(&wish(name, groups, &[]), mode).groups,
        expected
    );
}
