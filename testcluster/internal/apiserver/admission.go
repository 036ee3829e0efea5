package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// A plugin that reads static manifests refuses every kind but its own, hence
// one folder each.
var staticPlugins = []struct{ name, apiVersion, kind string }{
	{"MutatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration"},
	{"MutatingAdmissionWebhook", "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"},
	{"ValidatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration"},
	{"ValidatingAdmissionWebhook", "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"},
}

// writeStaticAdmission writes an AdmissionConfiguration that gives each plugin
// the subfolder of manifests that bears its name.
func writeStaticAdmission(file, manifests string) error {
	manifests, err := filepath.Abs(manifests)
	if err != nil {
		return err
	}
	var plugins []any
	var names []string
	for _, plugin := range staticPlugins {
		names = append(names, plugin.name)
		dir := filepath.Join(manifests, plugin.name)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		plugins = append(plugins, map[string]any{
			"name": plugin.name,
			"configuration": map[string]any{
				"apiVersion":         plugin.apiVersion,
				"kind":               plugin.kind,
				"staticManifestsDir": dir,
			},
		})
	}
	if len(plugins) == 0 {
		return fmt.Errorf("--static-manifests %s: no subfolder named %s", manifests, strings.Join(names, ", "))
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "AdmissionConfiguration",
		"plugins":    plugins,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
