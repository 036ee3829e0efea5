package up

import "portcullis.dev/testcluster/internal/users"

// report is the line printed on stdout once the cluster is ready.
type report struct {
	URL             string                `json:"url"`
	CAFile          string                `json:"caFile"`
	ClientCAFile    string                `json:"clientCAFile"`
	ServingCertFile string                `json:"servingCertFile"`
	ServingKeyFile  string                `json:"servingKeyFile"`
	Users           map[string]users.User `json:"users"`
	PIDs            map[string]int        `json:"pids"`
	Logs            map[string]string     `json:"logs"`
	AuditLog        string                `json:"auditLog,omitempty"`
}
