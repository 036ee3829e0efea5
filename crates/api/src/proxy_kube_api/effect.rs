//! Which fields have no effect, and which refuse the cluster.

use super::authentication::ValidateAgainst;
use super::security::AllowedResource;
use super::{Certificate, ProxyKubeApiSpec, SecurityConfig};

impl ProxyKubeApiSpec {
    /// What is asked for and not built yet. Each text begins `not supported yet: spec.`.
    #[must_use]
    pub fn unsupported(&self) -> Vec<String> {
        let mut fields = Vec::new();
        if let Some(auth) = &self.auth_config {
            if !auth.jwt.is_empty() {
                fields.push("auth_config.jwt; remove the list".to_owned());
            }
            if auth
                .oidc_provider
                .as_ref()
                .is_some_and(|provider| provider.enabled)
            {
                fields.push("auth_config.oidc_provider.enabled; set it to false".to_owned());
            }
            if auth.validate_against != ValidateAgainst::Kubernetes {
                fields.push("auth_config.validate_against; set it to Kubernetes".to_owned());
            }
        }
        for (index, api) in self.virtual_apis.iter().enumerate() {
            if api.enabled {
                fields.push(format!("virtual_apis[{index}].enabled; set it to false"));
            }
        }
        if let Some(security) = self.security_config.as_ref().filter(|s| s.enabled) {
            for (field, rule) in security.rules() {
                if let AllowedResource::Path(path) = rule
                    && path.allowed_ports.is_some()
                {
                    fields.push(format!("{field}.Path.allowed_ports; remove the list"));
                }
            }
        }
        fields
            .into_iter()
            .map(|field| format!("not supported yet: spec.{field}"))
            .collect()
    }

    /// What is accepted and has no effect, or weakens the cluster.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let mut add = |text: &str| notices.push(text.to_owned());
        if matches!(self.cert, Certificate::Insecure(true)) {
            add(
                "spec.cert.Insecure: the target's certificate is not verified; \
                 whoever is on the way can read and change everything",
            );
        }
        if self
            .auth_config
            .as_ref()
            .is_some_and(|auth| auth.disable_validation)
        {
            add("spec.auth_config.disable_validation: the gateway does not check who calls");
        }
        if self.expose_via_dashboard == Some(true) {
            add(
                "spec.expose_via_dashboard has no effect: there is no dashboard in this version; \
                 set spec.proxy_group to say who may use the cluster",
            );
        }
        if self.dashboard_group.is_some() {
            add(
                "spec.dashboard_group has no effect: there is no dashboard in this version; \
                 set spec.proxy_group to say who may use the cluster",
            );
        }
        if let Some(security) = &self.security_config {
            if !security.enabled {
                add("spec.security_config is not enforced: it has enabled: false");
            }
            if security
                .per_user_group_rate_limiting
                .iter()
                .any(|limit| limit.claim.is_some())
            {
                add(
                    "spec.security_config.per_user_group_rate_limiting[].claim has no effect: \
                     groups are those that authentication finds",
                );
            }
        }
        notices
    }
}

impl SecurityConfig {
    /// Both lists of rules in one, each rule with its field below `spec`.
    pub fn rules(&self) -> impl Iterator<Item = (String, &AllowedResource)> {
        numbered("allowed_resources", &self.allowed_resources)
            .chain(numbered("allowed_ressources", &self.allowed_ressources))
    }
}

fn numbered<'s>(
    name: &'static str,
    rules: &'s [AllowedResource],
) -> impl Iterator<Item = (String, &'s AllowedResource)> {
    rules
        .iter()
        .enumerate()
        .map(move |(index, rule)| (format!("security_config.{name}[{index}]"), rule))
}
