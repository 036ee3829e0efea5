//! The resource name of a kind, for rules that do not give it.

use super::Invalid;

/// English plural of the lower-cased kind, as Kubernetes names its resources.
///
/// `Gateway` becomes `gateways` and `NetworkPolicy` `networkpolicies`.
pub(super) fn of_kind(kind: &str) -> Result<String, Invalid> {
    if kind.is_empty() || !kind.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(Invalid::new(
            format!("no plural, and kind {kind:?} is not a CamelCase name to guess it from"),
            "set plural, or kind as in the objects' `kind:`",
        ));
    }
    let singular = kind.to_ascii_lowercase();
    if singular.ends_with("endpoints") {
        return Ok(singular);
    }
    if ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| singular.ends_with(end))
    {
        return Ok(singular + "es");
    }
    Ok(match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => singular + "s",
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::of_kind;

    #[rstest]
    #[case("Pod", "pods")]
    #[case("Ingress", "ingresses")]
    #[case("NetworkPolicy", "networkpolicies")]
    #[case("Gateway", "gateways")]
    #[case("Mesh", "meshes")]
    #[case("Switch", "switches")]
    #[case("Endpoints", "endpoints")]
    #[case("ProxyKubeApi", "proxykubeapis")]
    fn a_plural_is_guessed_as_kubernetes_names_its_resources(
        #[case] kind: &str,
        #[case] plural: &str,
    ) {
        assert_eq!(of_kind(kind).unwrap(), plural);
    }

    #[rstest]
    #[case("")]
    #[case("Pod/x")]
    fn no_plural_is_guessed_from_what_is_no_kind(#[case] kind: &str) {
        assert!(of_kind(kind).is_err());
    }
}
