// Package rbac gives the test users their permissions.
package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"portcullis.dev/testcluster/internal/users"
)

const gatewayRole = "testcluster:gateway"

// Bootstrap creates roles and bindings in a new cluster.
//
// `edit` and `view` themselves stay empty without the controller manager,
// which aggregates them; so the groups get the roles they are made of.
func Bootstrap(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, gateway(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the ClusterRole %s: %w", gatewayRole, err)
	}
	bindings := []struct{ name, group, role string }{
		{"testcluster:gateway", users.Gateways, gatewayRole},
		{"testcluster:developers-edit", users.Developers, "system:aggregate-to-edit"},
		{"testcluster:developers-view", users.Developers, "system:aggregate-to-view"},
		{"testcluster:viewers-view", users.Viewers, "system:aggregate-to-view"},
	}
	for _, binding := range bindings {
		object := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding.name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: binding.group}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: binding.role},
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the ClusterRoleBinding %s: %w", binding.name, err)
		}
	}
	return nil
}

// gateway allows what a gateway needs for itself: to act as its callers, and
// to have their credentials and permissions checked.
func gateway() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayRole},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"users", "groups", "serviceaccounts"}, Verbs: []string{"impersonate"}},
			// RBAC knows "*" and "*/subresource", but no "userextras/*".
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"impersonate"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		},
	}
}
