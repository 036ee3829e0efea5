//! What kube-apiserver would ask its authorizer before it lets a caller act as somebody else.
//!
//! Five modes are tried in order; the first whose questions are all answered with yes decides who
//! the caller becomes. Four are constrained: they ask in addition whether the caller may do *this
//! request* while acting as somebody else (`impersonate-on:<mode>:<verb>`). The last is the
//! legacy, unconstrained one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use portcullis_core::user::{
    ALL_AUTHENTICATED, ALL_SERVICE_ACCOUNTS, ALL_UNAUTHENTICATED, ANONYMOUS, split_service_account,
};
use portcullis_core::{Error, RequestInfo, UserInfo};

use super::{Impersonation, extra_key};
use crate::access::{AccessCheck, ResourceAttributes, Target};

const NODE_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const MASTERS_GROUP: &str = "system:masters";
const NODE_NAME_KEY: &str = "authentication.kubernetes.io/node-name";
const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// From how many values on a constrained mode first asks for all at once.
const MANY: usize = 4;

/// A way in which impersonation can be allowed, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// A service account acts as the node that its own token is bound to.
    AssociatedNode,
    /// Somebody acts as any node.
    ArbitraryNode,
    /// Somebody acts as a service account.
    ServiceAccount,
    /// Somebody acts as any other user.
    UserInfo,
    /// The verb `impersonate`, whatever the request is.
    Legacy,
}

/// All that may be asked for one wish.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Modes that apply, in order.
    pub attempts: Vec<Attempt>,
}

/// One mode's questions.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The mode.
    pub mode: Mode,
    /// In the order in which they are asked; the first no ends the attempt.
    pub steps: VecDeque<Step>,
    /// Whom the caller becomes if all are answered with yes.
    pub user: UserInfo,
}

/// One step of an attempt.
#[derive(Clone, Debug)]
pub enum Step {
    /// Must be allowed.
    Check(AccessCheck),
    /// `all` must be allowed, or else each of `each`.
    AllOrEach {
        /// One question with wildcards.
        all: AccessCheck,
        /// One question per value.
        each: Vec<AccessCheck>,
    },
    /// The mode does not take such a wish; no question is asked.
    Refuse(Error),
}

/// Lists what has to be allowed for `caller` to do what `info` says as somebody else.
///
/// The same value asked for twice is one question.
#[must_use]
pub fn checks(wish: &Impersonation, info: &RequestInfo, caller: &Arc<UserInfo>) -> Plan {
    let wanted = wish.wanted();
    let modes = [
        Mode::AssociatedNode,
        Mode::ArbitraryNode,
        Mode::ServiceAccount,
        Mode::UserInfo,
        Mode::Legacy,
    ];
    let attempt = |mode: Mode| {
        let asker = Asker {
            mode,
            caller: mode.asking_caller(caller),
            wanted,
        };
        Attempt {
            mode,
            steps: asker.steps(info),
            user: effective_user(wish, mode),
        }
    };
    let applying = modes
        .into_iter()
        .filter(|mode| mode.applies(wanted, caller));
    Plan {
        attempts: applying.map(attempt).collect(),
    }
}

/// Whom the caller becomes when `mode` allows it: the wanted user with the implied groups.
#[must_use]
pub fn effective_user(wish: &Impersonation, mode: Mode) -> UserInfo {
    let mut user = wish.wanted().clone();
    if user.groups.is_empty() {
        if mode.is_constrained() && node_name(&user.username).is_some() {
            user.groups = vec![NODES_GROUP.to_owned()];
        } else if let Some((namespace, _)) = split_service_account(&user.username) {
            user.groups = vec![
                ALL_SERVICE_ACCOUNTS.to_owned(),
                format!("{ALL_SERVICE_ACCOUNTS}:{namespace}"),
            ];
        }
    }
    let implied = if user.username == ANONYMOUS {
        ALL_UNAUTHENTICATED
    } else {
        ALL_AUTHENTICATED
    };
    if !user.in_group(ALL_UNAUTHENTICATED) && !user.in_group(implied) {
        user.groups.push(implied.to_owned());
    }
    user
}

impl Mode {
    /// The word in the verbs, and a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    const fn is_constrained(self) -> bool {
        !matches!(self, Self::Legacy)
    }

    fn verb(self) -> String {
        if self.is_constrained() {
            format!("impersonate:{}", self.as_str())
        } else {
            "impersonate".to_owned()
        }
    }

    fn applies(self, wanted: &UserInfo, caller: &UserInfo) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.username);
        let service_account = split_service_account(&wanted.username);
        match self {
            Self::AssociatedNode => only_name && node.is_some() && node == bound_node(caller),
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && service_account.is_some(),
            Self::UserInfo => node.is_none() && service_account.is_none(),
            Self::Legacy => true,
        }
    }

    /// For the associated node the authorizer sees only which keys the caller's extra has.
    fn asking_caller(self, caller: &Arc<UserInfo>) -> Arc<UserInfo> {
        if self != Self::AssociatedNode {
            return Arc::clone(caller);
        }
        let keys = caller.extra.keys().cloned().collect();
        let extra = BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)]);
        Arc::new(UserInfo {
            extra,
            ..caller.as_ref().clone()
        })
    }
}

/// Builds the questions of one mode.
struct Asker<'a> {
    mode: Mode,
    caller: Arc<UserInfo>,
    wanted: &'a UserInfo,
}

impl Asker<'_> {
    fn steps(&self, info: &RequestInfo) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        if self.mode.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.as_str(), info.verb);
            let user = Arc::clone(&self.caller);
            steps.push_back(Step::Check(AccessCheck {
                user,
                verb,
                target: Target::of_request(info),
            }));
        }
        steps.push_back(Step::Check(self.name_check()));
        if !self.wanted.uid.is_empty() {
            steps.push_back(Step::Check(
                self.check(self.authentication("uids", &self.wanted.uid)),
            ));
        }
        self.push_groups(&mut steps);
        self.push_extra(&mut steps);
        steps
    }

    fn name_check(&self) -> AccessCheck {
        let name = &self.wanted.username;
        if let (true, Some(node)) = (self.mode.is_constrained(), node_name(name)) {
            // A binding of a node agent holds for all nodes: each pod proves which one is its own.
            let node = if self.mode == Mode::AssociatedNode {
                "*"
            } else {
                node
            };
            return self.check(self.named("nodes", node));
        }
        match split_service_account(name) {
            Some((namespace, name)) => {
                let namespace = namespace.to_owned();
                self.check(ResourceAttributes {
                    namespace,
                    ..self.named("serviceaccounts", name)
                })
            }
            None => self.check(self.named("users", name)),
        }
    }

    fn push_groups(&self, steps: &mut VecDeque<Step>) {
        let groups = &self.wanted.groups;
        let check = |group: &str| self.check(self.named("groups", group));
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return steps.push_back(Step::Refuse(check("").forbidden(why)));
            }
            if groups.iter().any(|group| group == MASTERS_GROUP) {
                let why = "impersonating the system:masters group is not allowed";
                return steps.push_back(Step::Refuse(check(MASTERS_GROUP).forbidden(why)));
            }
        }
        let each = distinct(groups.iter().map(|group| check(group)));
        let many = groups.len() >= MANY;
        self.push_each(steps, many, check("*"), each);
    }

    fn push_extra(&self, steps: &mut VecDeque<Step>) {
        let extra = &self.wanted.extra;
        let check = |key: &str, value: &str| {
            let subresource = key.to_owned();
            self.check(ResourceAttributes {
                subresource,
                ..self.authentication("userextras", value)
            })
        };
        if self.mode.is_constrained() {
            let fault = extra
                .iter()
                .find_map(|(key, values)| extra_key::constrained_fault(key, values));
            if let Some(why) = fault {
                return steps.push_back(Step::Refuse(check("", "").forbidden(&why)));
            }
        }
        let pairs = extra
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let each = distinct(pairs.map(|(key, value)| check(key, value)));
        let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
        self.push_each(steps, many, check("*", "*"), each);
    }

    fn push_each(
        &self,
        steps: &mut VecDeque<Step>,
        many: bool,
        all: AccessCheck,
        each: Vec<AccessCheck>,
    ) {
        if many && self.mode.is_constrained() {
            steps.push_back(Step::AllOrEach { all, each });
        } else {
            steps.extend(each.into_iter().map(Step::Check));
        }
    }

    fn check(&self, attributes: ResourceAttributes) -> AccessCheck {
        AccessCheck {
            user: Arc::clone(&self.caller),
            verb: self.mode.verb(),
            target: Target::Resource(attributes),
        }
    }

    /// Names and groups: a virtual resource of the core group in the legacy mode.
    fn named(&self, resource: &str, name: &str) -> ResourceAttributes {
        let attributes = self.authentication(resource, name);
        if self.mode.is_constrained() {
            attributes
        } else {
            ResourceAttributes {
                group: String::new(),
                ..attributes
            }
        }
    }

    fn authentication(&self, resource: &str, name: &str) -> ResourceAttributes {
        ResourceAttributes {
            group: AUTHENTICATION_GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..ResourceAttributes::default()
        }
    }
}

fn distinct(checks: impl Iterator<Item = AccessCheck>) -> Vec<AccessCheck> {
    let mut seen = HashSet::new();
    checks.filter(|check| seen.insert(check.clone())).collect()
}

/// Splits `system:node:<name>`.
fn node_name(username: &str) -> Option<&str> {
    let name = username.strip_prefix(NODE_PREFIX)?;
    (name.len() <= 253 && extra_key::is_subdomain(name)).then_some(name)
}

/// The node to which the token of a service account is bound.
fn bound_node(caller: &UserInfo) -> Option<&str> {
    split_service_account(&caller.username)?;
    match caller.extra.get(NODE_NAME_KEY)?.as_slice() {
        [name] => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
