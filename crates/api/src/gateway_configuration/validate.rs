//! Rules of a `GatewayConfiguration` that its types do not express.

use std::time::Duration;

use portcullis_core::yaml::Fault;
use url::Url;

use super::{GatewayConfiguration, Limits, Listen, Protocol, Resources, Tracing};
use crate::duration;
use crate::names;
use crate::rules::Rules;

/// Longest of all timeouts.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// A revoked token is honoured for no longer than this.
const MAX_TOKEN_CACHE_TTL: Duration = Duration::from_secs(300);

impl GatewayConfiguration {
    /// All faults.
    #[must_use]
    pub fn validate(&self) -> Vec<Fault> {
        let mut rules = Rules::default();
        listen(&self.listen, &mut rules);
        resources(&self.resources, &mut rules);
        limits(&self.limits, &mut rules);
        let cache = &self.authentication;
        let ttl = "authentication.tokenCacheTTL";
        time(
            &mut rules,
            ttl,
            cache.token_cache_ttl,
            Duration::ZERO,
            MAX_TOKEN_CACHE_TTL,
        );
        let size = "authentication.tokenCacheSize";
        rules.within(size, &cache.token_cache_size, &1, &1_000_000);
        let format = self.logging.format.as_str();
        let known = matches!(format, "text" | "json");
        rules.check(
            known,
            "logging.format",
            "unknown value",
            "write `text` or `json`",
        );
        let level = !self.logging.level.trim().is_empty();
        rules.check(
            level,
            "logging.level",
            "is empty",
            "write error, warn, info, debug or trace",
        );
        if let Some(tracing) = &self.tracing {
            self::tracing(tracing, &mut rules);
        }
        time(
            &mut rules,
            "drain.delay",
            self.drain.delay,
            Duration::ZERO,
            MAX_TIMEOUT,
        );
        time(
            &mut rules,
            "drain.timeout",
            self.drain.timeout,
            Duration::ZERO,
            MAX_TIMEOUT,
        );
        rules.finish()
    }
}

fn listen(listen: &Listen, rules: &mut Rules) {
    let field = "listen.protocols";
    let remedy = "write [h2, http/1.1], or one of the two";
    rules.check(!listen.protocols.is_empty(), field, "is empty", remedy);
    let times = |protocol| listen.protocols.iter().filter(|p| **p == protocol).count();
    let twice = times(Protocol::Http1) > 1 || times(Protocol::Http2) > 1;
    rules.check(!twice, field, "names a protocol twice", remedy);
    let tls = &listen.tls;
    let file = "write the path of a PEM file";
    let empty = |path: &std::path::Path| path.as_os_str().is_empty();
    rules.check(
        !empty(&tls.cert_file),
        "listen.tls.certFile",
        "is empty",
        file,
    );
    rules.check(
        !empty(&tls.key_file),
        "listen.tls.keyFile",
        "is empty",
        file,
    );
    let client_ca = tls.client_ca_file.as_deref().is_some_and(empty);
    rules.check(!client_ca, "listen.tls.clientCAFile", "is empty", file);
}

fn resources(resources: &Resources, rules: &mut Rules) {
    let field = "resources";
    let cluster = resources.has_cluster();
    let some = resources.directory.is_some() || cluster;
    rules.check(
        some,
        field,
        "names no source",
        "set directory, kubeconfig or inCluster",
    );
    let both = resources.kubeconfig.is_some() && resources.in_cluster;
    let message = "kubeconfig and inCluster exclude each other";
    rules.check(!both, field, message, "remove one of the two");
    let empty = |path: &Option<std::path::PathBuf>| {
        path.as_ref()
            .is_some_and(|path| path.as_os_str().is_empty())
    };
    let remedy = "write a path, or remove the field";
    rules.check(
        !empty(&resources.directory),
        "resources.directory",
        "is empty",
        remedy,
    );
    rules.check(
        !empty(&resources.kubeconfig),
        "resources.kubeconfig",
        "is empty",
        remedy,
    );
    let context = resources.context.is_none() || resources.kubeconfig.is_some();
    let message = "has a meaning only with a kubeconfig";
    rules.check(
        context,
        "resources.context",
        message,
        "set kubeconfig, or remove it",
    );
    let namespace = resources.namespace.as_str();
    let (field, remedy) = (
        "resources.namespace",
        "set kubeconfig or inCluster, or remove it",
    );
    let message = "has a meaning only with a federating cluster";
    rules.check(namespace.is_empty() || cluster, field, message, remedy);
    let valid = namespace.is_empty() || names::is_label(namespace);
    rules.check(
        valid,
        field,
        "is no namespace name",
        "use lower-case letters, digits and '-'",
    );
    let files = !resources.allow_file_references || cluster;
    rules.check(files, "resources.allowFileReferences", message, remedy);
}

fn limits(limits: &Limits, rules: &mut Rules) {
    rules.within(
        "limits.maxConnections",
        &limits.max_connections,
        &1,
        &1_000_000,
    );
    rules.within(
        "limits.maxConcurrentStreams",
        &limits.max_concurrent_streams,
        &1,
        &10_000,
    );
    rules.within(
        "limits.maxHeaderBytes",
        &limits.max_header_bytes,
        &8192,
        &1_048_576,
    );
    let counts = [
        ("limits.maxRequestsInFlight", limits.max_requests_in_flight),
        (
            "limits.maxMutatingRequestsInFlight",
            limits.max_mutating_requests_in_flight,
        ),
        (
            "limits.maxLongRunningRequests",
            limits.max_long_running_requests,
        ),
    ];
    for (field, value) in counts {
        rules.within(field, &value, &1, &1_000_000);
    }
    let timeouts = [
        ("limits.tlsHandshakeTimeout", limits.tls_handshake_timeout),
        ("limits.headerReadTimeout", limits.header_read_timeout),
        ("limits.connectTimeout", limits.connect_timeout),
        ("limits.requestTimeout", limits.request_timeout),
    ];
    for (field, value) in timeouts {
        time(rules, field, value, Duration::from_millis(1), MAX_TIMEOUT);
    }
}

fn tracing(tracing: &Tracing, rules: &mut Rules) {
    let http = Url::parse(&tracing.endpoint)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let remedy = "write the collector's base URL, e.g. http://127.0.0.1:4318";
    rules.check(http, "tracing.endpoint", "is no http or https URL", remedy);
    let ratio = (0.0..=1.0).contains(&tracing.sampling_ratio);
    rules.check(
        ratio,
        "tracing.samplingRatio",
        "is out of range",
        "write a value from 0 to 1",
    );
}

fn time(rules: &mut Rules, field: &str, value: Duration, least: Duration, most: Duration) {
    if value < least || value > most {
        let (least, most) = (duration::format(least), duration::format(most));
        let remedy = format!("write a duration from {least} to {most}");
        rules.fault(field, "is out of range", &remedy);
    }
}
