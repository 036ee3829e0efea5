use portcullis_core::yaml::{decode, parse};
use rstest::rstest;

use super::*;

const LEAST: &str = "apiVersion: weebo.si.rs/v1
kind: ProxyKubeApi
metadata: {name: a, namespace: team}
spec:
";
const CERT: &str = "  cert: {SystemRoots: true}\n";
const SERVICE: &str = "  service: {ExternalService: {url: 'https://api.example.com:6443/k8s/a'}}\n";

fn read(spec: &str) -> Result<ProxyKubeApi, Vec<String>> {
    let documents = parse("c.yaml", format!("{LEAST}{spec}").as_bytes()).unwrap();
    let text = |faults: Vec<portcullis_core::yaml::Diagnostic>| {
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let object: ProxyKubeApi = decode(&documents[0]).map_err(text)?;
    let faults = object.validate();
    if faults.is_empty() {
        Ok(object)
    } else {
        Err(text(
            faults
                .into_iter()
                .map(|f| documents[0].diagnose(f))
                .collect(),
        ))
    }
}

/// `FIELD: message` of each fault of the spec, without place and remedy.
fn faults(more: &str) -> Vec<String> {
    let found = read(&format!("{CERT}{SERVICE}{more}\n")).unwrap_err();
    found
        .iter()
        .map(|f| {
            f.splitn(4, ':')
                .nth(3)
                .unwrap()
                .split(';')
                .next()
                .unwrap()
                .trim()
                .to_owned()
        })
        .collect()
}

#[test]
fn an_object_of_the_other_project_is_read_unmodified() {
    let object = read(
        "  cert: {Insecure: true}
  service: {KubernetesService: {name: kubernetes, namespace: default, port: 443}}
  enabled: true
  dashboard_group: dashboard-team-a
  expose_via_dashboard: true
  auth_config:
    validate_against: Kubernetes
    jwt: []
    oidc_provider: {enabled: false, issuer_url: '', client_id: '', extra_scope: ''}
  security_config:
    allowed_ressources: [{Path: {path: /api/v1/pods}}]
  virtual_apis: [{kind: OpenShiftProject, enabled: false}]
status: {exposed: true, path: /clusters/team/a}
",
    )
    .unwrap();
    assert!(object.spec.unsupported().is_empty());
    assert_eq!(object.spec.notices().len(), 3);
    assert_eq!(object.spec.review(), Review::SelfSubjectReview);
}

#[rstest]
#[case(
    "  hosst: [a]\n",
    "c.yaml:7:3: spec.hosst: unknown field; known here: `enabled`, "
)]
#[case(
    "  upstream_mode: Passthrough\n",
    "c.yaml:7:3: spec.upstream_mode: unknown value; write `PassThrough` or `Impersonate`"
)]
#[case(
    "  gateway_credential: {Token: s3cret}\n",
    "c.yaml:7:24: spec.gateway_credential.Token: "
)]
#[case(
    "  gateway_credential: {TokenFile: {path: a}, Token: {Secret: {name: a, key: b}}}\n",
    "c.yaml:7:3: spec.gateway_credential: "
)]
#[case(
    "  security_config: {allowed_resources: [{Path: {parametised: true}}]}\n",
    "c.yaml:7:42: spec.security_config.allowed_resources[0].Path.path: is required; add it"
)]
#[case(
    "  virtual_apis: [{kind: Route}]\n",
    "c.yaml:7:19: spec.virtual_apis[0].kind: unknown value; write `OpenShiftProject`"
)]
fn a_decode_fault_has_file_line_and_field(#[case] more: &str, #[case] start: &str) {
    let found = read(&format!("{CERT}{SERVICE}{more}")).unwrap_err();
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    assert!(!found[0].contains("s3cret"));
}

#[test]
fn all_faults_are_found_with_their_places() {
    let found = read(
        "  cert: {SystemRoots: false}
  service: {KubernetesService: {name: A, port: 0}}
  hosts: [a.example.com, B, a.example.com]
  proxy_group: ''
",
    )
    .unwrap_err();
    assert_eq!(
        found,
        [
            "c.yaml:7:26: spec.hosts[1]: is no host name; write an exact lower-case DNS name without port",
            "c.yaml:7:29: spec.hosts[2]: is given twice; remove it",
            "c.yaml:5:10: spec.cert.SystemRoots: false trusts nobody; set it to true, or name authorities in another way",
            "c.yaml:6:33: spec.service.KubernetesService.name: is no Service name; use lower-case letters, digits and '-'",
            "c.yaml:6:42: spec.service.KubernetesService.port: is out of range; write a value from 1 to 65535",
            "c.yaml:8:3: spec.proxy_group: is empty; name a group, or remove the field",
        ]
    );
}

#[rstest]
#[case("https://h", None)]
#[case("https://h/", None)]
#[case("https://[::1]:6443/a/b/", None)]
#[case("https://10.0.0.1:6443", None)]
#[case("http://h", Some("is not https"))]
#[case("h:6443", Some("is no URL"))]
#[case("https://", Some("is no URL"))]
#[case("https://u:p@h", Some("has credentials"))]
#[case("https://@h", Some("has credentials"))]
#[case("https://h?a=b", Some("has a query or fragment"))]
#[case("https://h/#", Some("has a query or fragment"))]
#[case("https://h:0", Some("names no host and port to connect to"))]
#[case("https://h/a/../b", Some("has a path that could be read in two ways"))]
#[case(
    "https://h/a/%2e%2e/b",
    Some("has a path that could be read in two ways")
)]
#[case("https://h//a", Some("has a path that could be read in two ways"))]
#[case("https://h/a//", Some("has a path that could be read in two ways"))]
#[case("https://h\\a", Some("has a path that could be read in two ways"))]
#[case("https://h/a;b", Some("has a path that could be read in two ways"))]
#[case("https://h/a b", Some("has a path that could be read in two ways"))]
fn an_url_must_be_plain(#[case] url: &str, #[case] expected: Option<&str>) {
    let found = read(&format!(
        "{CERT}  service: {{ExternalService: {{url: {}}}}}\n",
        serde_json::json!(url)
    ));
    match expected {
        None => assert!(found.is_ok(), "{found:?}"),
        Some(message) => {
            let found = found.unwrap_err();
            assert!(
                found.len() == 1
                    && found[0].contains(&format!("spec.service.ExternalService.url: {message}")),
                "{found:?}"
            );
        }
    }
}

#[rstest]
#[case("  upstream_mode: Impersonate", &["spec.upstream_mode: Impersonate needs an identity of the gateway"])]
#[case("  upstream_mode: Impersonate\n  gateway_credential: {TokenFile: {path: t}}\n  auth_config: {disable_validation: true}", &["spec.upstream_mode: Impersonate needs to know who calls"])]
#[case("  client_cert: {cert: {File: {path: a}}, key: {File: {path: b}}}", &["spec.client_cert: with PassThrough the API server would prefer the certificate to the caller's token, and every caller would act as the gateway"])]
#[case("  upstream_mode: Impersonate\n  client_cert: {cert: {File: {path: a}}, key: {Cert: ' '}}\n  gateway_credential: {ClientCertFile: {cert_path: '', key_path: ''}}", &[
    "spec.client_cert.key.Cert: is empty",
    "spec.gateway_credential.ClientCertFile.cert_path: is empty",
    "spec.gateway_credential.ClientCertFile.key_path: is empty",
    "spec.client_cert: stands beside spec.gateway_credential",
])]
#[case("  auth_config: {review: TokenReview}", &["spec.auth_config.review: TokenReview needs an identity of the gateway"])]
#[case("  auth_config: {disable_validation: true}\n  proxy_group: g", &["spec.proxy_group: needs to know who calls"])]
#[case("  gateway_credential: {Token: {Secret: {name: A, key: a/b, namespace: a.b}}}", &[
    "spec.gateway_credential.Token.Secret.name: is no object name",
    "spec.gateway_credential.Token.Secret.key: is no key",
    "spec.gateway_credential.Token.Secret.namespace: is no namespace name",
])]
fn identities_must_fit_together(#[case] more: &str, #[case] expected: &[&str]) {
    assert_eq!(faults(more), expected);
}

#[rstest]
#[case("{validate_against: OidcProvider}", &["spec.auth_config.validate_against: OidcProvider needs an enabled provider"])]
#[case("{validate_against: JwtAuthenticators}", &["spec.auth_config.validate_against: JwtAuthenticators needs at least one issuer"])]
#[case("{oidc_provider: {enabled: true, issuer_url: 'https://i'}}", &["spec.auth_config.oidc_provider: is enabled and incomplete"])]
#[case("{oidc_provider: {expose_oauth_authorization_server: true, config_from: {Secret: {name: A}}}}", &[
    "spec.auth_config.oidc_provider.expose_oauth_authorization_server: needs an enabled provider",
    "spec.auth_config.oidc_provider.config_from.Secret: names no object",
])]
#[case("{jwt: [{issuer: {url: 'http://i'}, claim_mappings: {}}]}", &[
    "spec.auth_config.jwt[0].issuer.url: is no https URL",
    "spec.auth_config.jwt[0].issuer.audiences: accepts tokens made for anybody",
    "spec.auth_config.jwt[0].claim_mappings.username: is required",
])]
#[case("{jwt: [{issuer: {url: 'https://i', audiences: [a]}, claim_mappings: {username: {claim: sub}, groups: {expression: x, prefix: p}, uid: {claim: a, expression: b}, extra: [{key: Role}]},
    claim_validation_rules: [{required_value: x}, {expression: e}], user_validation_rules: [{expression: e}]},
    {issuer: {url: 'https://i', audiences: [a], certificate_authority: x}, claim_mappings: {username: {expression: e}}}]}", &[
    "spec.auth_config.jwt[0].claim_validation_rules[0]: needs exactly one of claim and expression",
    "spec.auth_config.jwt[0].claim_validation_rules[0].required_value: belongs to claim",
    "spec.auth_config.jwt[0].claim_validation_rules[1].message: is required with expression",
    "spec.auth_config.jwt[0].claim_mappings.username.prefix: is required with claim",
    "spec.auth_config.jwt[0].claim_mappings.groups.prefix: belongs to claim",
    "spec.auth_config.jwt[0].claim_mappings.uid: needs exactly one of claim and expression",
    "spec.auth_config.jwt[0].claim_mappings.extra[0].key: has no domain",
    "spec.auth_config.jwt[0].claim_mappings.extra[0].value_expression: is required",
    "spec.auth_config.jwt[0].user_validation_rules[0]: lacks expression or message",
    "spec.auth_config.jwt[1].issuer.certificate_authority: holds no certificate",
    "spec.auth_config.jwt[1].issuer.url: is the issuer of another item too",
])]
fn what_is_not_supported_yet_is_checked_all_the_same(
    #[case] auth: &str,
    #[case] expected: &[&str],
) {
    assert_eq!(faults(&format!("  auth_config: {auth}")), expected);
}

#[rstest]
#[case("{fail2login_equal_ban: {enabled: true, max_failed_logins: 0}}", &["spec.security_config.fail2login_equal_ban.max_failed_logins: 0 bans everybody"])]
#[case("{per_user_group_rate_limiting: [{group: '', max_requests_per_minute: 1}]}", &["spec.security_config.per_user_group_rate_limiting[0].group: is empty"])]
#[case("{allowed_resources: [{Path: {path: /, allowed_ports: ['1', 9-8, '0', 70000, 1-, '']}}]}", &[
    "spec.security_config.allowed_resources[0].Path.allowed_ports[1]: is no port or range of ports",
    "spec.security_config.allowed_resources[0].Path.allowed_ports[2]: is no port or range of ports",
    "spec.security_config.allowed_resources[0].Path.allowed_ports[3]: is no port or range of ports",
    "spec.security_config.allowed_resources[0].Path.allowed_ports[4]: is no port or range of ports",
    "spec.security_config.allowed_resources[0].Path.allowed_ports[5]: is no port or range of ports",
])]
fn security_rules_are_checked(#[case] security: &str, #[case] expected: &[&str]) {
    let security = security.replace("70000", "'70000'");
    assert_eq!(faults(&format!("  security_config: {security}")), expected);
}

#[rstest]
#[case(
    "auth_config: {jwt: [{issuer: {url: 'https://i', audiences: [a]}, claim_mappings: {username: {expression: e}}}]}",
    "not supported yet: spec.auth_config.jwt; "
)]
#[case(
    "auth_config: {oidc_provider: {enabled: true, issuer_url: i, client_id: c, client_secret: s}}",
    "not supported yet: spec.auth_config.oidc_provider.enabled; "
)]
#[case(
    "virtual_apis: [{kind: OpenShiftProject}]",
    "not supported yet: spec.virtual_apis[0].enabled; "
)]
#[case(
    "security_config: {allowed_ressources: [{Path: {path: /, allowed_ports: []}}]}",
    "not supported yet: spec.security_config.allowed_ressources[0].Path.allowed_ports; "
)]
fn what_is_not_built_refuses_the_cluster(#[case] more: &str, #[case] start: &str) {
    let object = read(&format!("{CERT}{SERVICE}  {more}\n")).unwrap();
    let found = object.spec.unsupported();
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
}

#[test]
fn the_review_follows_the_mode_unless_it_is_written() {
    let credential = "  upstream_mode: Impersonate\n  gateway_credential: {TokenFile: {path: t}}\n";
    let review = |more: &str| {
        read(&format!("{CERT}{SERVICE}{more}"))
            .unwrap()
            .spec
            .review()
    };
    assert_eq!(review(""), Review::SelfSubjectReview);
    assert_eq!(review(credential), Review::TokenReview);
    assert_eq!(
        review(&format!(
            "{credential}  auth_config: {{review: SelfSubjectReview}}\n"
        )),
        Review::SelfSubjectReview
    );
}

#[test]
fn secrets_are_not_printed() {
    let object = read(&format!(
        "{CERT}{SERVICE}  upstream_mode: Impersonate\n  client_cert: {{cert: {{Cert: s3cret}}, key: {{Cert: s3cret}}}}\n  \
         auth_config: {{oidc_provider: {{client_secret: s3cret}}}}\n"
    ))
    .unwrap();
    assert!(!format!("{object:?}").contains("s3cret"));
}
