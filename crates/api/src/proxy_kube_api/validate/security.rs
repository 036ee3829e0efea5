//! Rules of `spec.security_config`. What a rule of the allow-list means is checked where it is
//! compiled.

use crate::proxy_kube_api::SecurityConfig;
use crate::proxy_kube_api::security::AllowedResource;
use crate::rules::Rules;

pub(super) fn check(security: &SecurityConfig, rules: &mut Rules) {
    for (field, rule) in security.rules() {
        let AllowedResource::Path(path) = rule else {
            continue;
        };
        for (index, range) in path.allowed_ports.iter().flatten().enumerate() {
            let field = format!("spec.{field}.Path.allowed_ports[{index}]");
            let remedy = "write 8080 or 9000-9100";
            rules.check(
                is_port_range(range),
                &field,
                "is no port or range of ports",
                remedy,
            );
        }
    }
    let ban = &security.fail2login_equal_ban;
    let field = "spec.security_config.fail2login_equal_ban.max_failed_logins";
    let at_once = ban.enabled && ban.max_failed_logins == 0;
    rules.check(!at_once, field, "0 bans everybody", "write at least 1");
    for (index, limit) in security.per_user_group_rate_limiting.iter().enumerate() {
        let field = format!("spec.security_config.per_user_group_rate_limiting[{index}].group");
        rules.check(!limit.group.is_empty(), &field, "is empty", "name a group");
    }
}

fn is_port_range(text: &str) -> bool {
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| text.parse::<u16>().ok())
            .flatten()
            .filter(|port| *port > 0)
    };
    match text.split_once('-') {
        None => port(text).is_some(),
        Some((first, last)) => port(first).zip(port(last)).is_some_and(|(a, b)| a <= b),
    }
}
