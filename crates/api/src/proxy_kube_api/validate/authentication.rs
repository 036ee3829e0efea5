//! Rules of `spec.auth_config`. Counterpart: the validation of `AuthenticationConfiguration` in
//! `k8s.io/apiserver`.

use std::collections::BTreeSet;

use crate::names;
use crate::proxy_kube_api::AuthenticationConfig;
use crate::proxy_kube_api::authentication::{
    ClaimMappings, ClaimValidationRule, ConfigFrom, Issuer, JwtAuthenticator, OidcProvider,
    PrefixedClaim, ValidateAgainst,
};
use crate::rules::Rules;

/// Most issuers of one cluster.
pub(crate) const MAX_ISSUERS: usize = 64;

pub(super) fn check(auth: &AuthenticationConfig, rules: &mut Rules) {
    if let Some(provider) = &auth.oidc_provider {
        oidc_provider(provider, rules);
    }
    let field = "spec.auth_config.validate_against";
    match auth.validate_against {
        ValidateAgainst::Kubernetes => {}
        ValidateAgainst::OidcProvider => {
            let enabled = auth
                .oidc_provider
                .as_ref()
                .is_some_and(|provider| provider.enabled);
            let message = "OidcProvider needs an enabled provider";
            rules.check(
                enabled,
                field,
                message,
                "set spec.auth_config.oidc_provider.enabled",
            );
        }
        ValidateAgainst::JwtAuthenticators => {
            let message = "JwtAuthenticators needs at least one issuer";
            rules.check(
                !auth.jwt.is_empty(),
                field,
                message,
                "fill spec.auth_config.jwt",
            );
        }
    }
    jwt(&auth.jwt, rules);
}

fn jwt(authenticators: &[JwtAuthenticator], rules: &mut Rules) {
    let field = "spec.auth_config.jwt";
    rules.check(
        authenticators.len() <= MAX_ISSUERS,
        field,
        "has more than 64 issuers",
        "use fewer",
    );
    let mut seen = BTreeSet::new();
    for (index, authenticator) in authenticators.iter().enumerate() {
        let field = format!("{field}[{index}]");
        issuer(&format!("{field}.issuer"), &authenticator.issuer, rules);
        let unique = seen.insert(authenticator.issuer.url.as_str());
        let message = "is the issuer of another item too";
        rules.check(
            unique,
            &format!("{field}.issuer.url"),
            message,
            "merge the two",
        );
        for (index, rule) in authenticator.claim_validation_rules.iter().enumerate() {
            claim_rule(
                &format!("{field}.claim_validation_rules[{index}]"),
                rule,
                rules,
            );
        }
        mappings(
            &format!("{field}.claim_mappings"),
            &authenticator.claim_mappings,
            rules,
        );
        for (index, rule) in authenticator.user_validation_rules.iter().enumerate() {
            let complete = !rule.expression.is_empty() && !rule.message.is_empty();
            let field = format!("{field}.user_validation_rules[{index}]");
            rules.check(
                complete,
                &field,
                "lacks expression or message",
                "write both",
            );
        }
    }
}

fn oidc_provider(provider: &OidcProvider, rules: &mut Rules) {
    let field = "spec.auth_config.oidc_provider";
    let written = !provider.issuer_url.is_empty() && !provider.client_id.is_empty();
    let complete = !provider.enabled || written || provider.config_from.is_some();
    let remedy = "set issuer_url and client_id, or config_from";
    rules.check(complete, field, "is enabled and incomplete", remedy);
    let server = provider.expose_oauth_authorization_server && !provider.enabled;
    let message = "needs an enabled provider";
    let server_field = "spec.auth_config.oidc_provider.expose_oauth_authorization_server";
    rules.check(!server, server_field, message, "set enabled: true");
    if let Some(ConfigFrom::Secret(reference)) = &provider.config_from {
        let valid = names::is_subdomain(&reference.name)
            && reference.namespace.as_deref().is_none_or(names::is_label);
        let field = "spec.auth_config.oidc_provider.config_from.Secret";
        let remedy = "use lower-case letters, digits, '-' and '.'";
        rules.check(valid, field, "names no object", remedy);
    }
}

fn issuer(field: &str, issuer: &Issuer, rules: &mut Rules) {
    let urls = [
        ("url", Some(&issuer.url)),
        ("discovery_url", issuer.discovery_url.as_ref()),
    ];
    for (name, url) in urls {
        let https = url.is_none_or(|url| {
            url::Url::parse(url).is_ok_and(|u| {
                u.scheme() == "https"
                    && u.has_host()
                    && u.query().is_none()
                    && u.fragment().is_none()
            })
        });
        let remedy = "write an https URL without query";
        rules.check(https, &format!("{field}.{name}"), "is no https URL", remedy);
    }
    let audiences = !issuer.audiences.is_empty() && issuer.audiences.iter().all(|a| !a.is_empty());
    let message = "accepts tokens made for anybody";
    rules.check(
        audiences,
        &format!("{field}.audiences"),
        message,
        "name at least one audience",
    );
    let authority = issuer.certificate_authority.as_deref();
    let pem = authority.is_none_or(|text| text.contains("-----BEGIN CERTIFICATE-----"));
    let message = "holds no certificate";
    rules.check(
        pem,
        &format!("{field}.certificate_authority"),
        message,
        "write PEM text",
    );
}

fn claim_rule(field: &str, rule: &ClaimValidationRule, rules: &mut Rules) {
    one_of_two(
        field,
        rule.claim.as_deref(),
        rule.expression.as_deref(),
        rules,
    );
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let value = given(&rule.required_value) && !given(&rule.claim);
    let message = "belongs to claim";
    rules.check(
        !value,
        &format!("{field}.required_value"),
        message,
        "set claim, or remove it",
    );
    let silent = given(&rule.expression) && !given(&rule.message);
    let message = "is required with expression";
    rules.check(
        !silent,
        &format!("{field}.message"),
        message,
        "say why a token is refused",
    );
}

fn mappings(field: &str, mappings: &ClaimMappings, rules: &mut Rules) {
    let username = format!("{field}.username");
    rules.check(
        mappings.username.is_some(),
        &username,
        "is required",
        "add it",
    );
    let groups = format!("{field}.groups");
    for (field, mapping) in [(username, &mappings.username), (groups, &mappings.groups)] {
        if let Some(mapping) = mapping {
            prefixed(&field, mapping, rules);
        }
    }
    if let Some(uid) = &mappings.uid {
        let field = format!("{field}.uid");
        one_of_two(
            &field,
            uid.claim.as_deref(),
            uid.expression.as_deref(),
            rules,
        );
    }
    for (index, extra) in mappings.extra.iter().enumerate() {
        let field = format!("{field}.extra[{index}]");
        let domain = extra.key.split_once('/').is_some_and(|(domain, path)| {
            names::is_subdomain(domain) && !path.is_empty() && extra.key == extra.key.to_lowercase()
        });
        let remedy = "write a lower-case key such as example.com/role";
        rules.check(domain, &format!("{field}.key"), "has no domain", remedy);
        let expression = !extra.value_expression.is_empty();
        let value = format!("{field}.value_expression");
        rules.check(
            expression,
            &value,
            "is required",
            "write a CEL expression over claims",
        );
    }
}

fn prefixed(field: &str, mapping: &PrefixedClaim, rules: &mut Rules) {
    one_of_two(
        field,
        mapping.claim.as_deref(),
        mapping.expression.as_deref(),
        rules,
    );
    let prefix = format!("{field}.prefix");
    let lacks = mapping.claim.is_some() && mapping.prefix.is_none();
    let remedy = "write one; \"\" says that none is wanted";
    rules.check(!lacks, &prefix, "is required with claim", remedy);
    let stray = mapping.prefix.is_some() && mapping.claim.is_none();
    rules.check(
        !stray,
        &prefix,
        "belongs to claim",
        "set claim, or remove it",
    );
}

fn one_of_two(field: &str, claim: Option<&str>, expression: Option<&str>, rules: &mut Rules) {
    let given = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
    let message = "needs exactly one of claim and expression";
    rules.check(
        given(claim) != given(expression),
        field,
        message,
        "set one of the two",
    );
}
