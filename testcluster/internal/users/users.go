// Package users makes the callers that tests act as. Each has a static token
// and a client certificate for the same name and groups.
package users

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"portcullis.dev/testcluster/internal/pki"
)

// Groups of the users; package rbac binds them to roles.
const (
	Developers = "developers"
	Viewers    = "viewers"
	Gateways   = "gateways"
)

// Names lists the users with their groups.
var Names = []struct {
	Name   string
	Groups []string
}{
	{"admin", []string{"system:masters"}},
	{"alice", []string{Developers}},
	{"bob", []string{Viewers}},
	{"gateway", []string{Gateways}},
}

// User is one caller's credentials, in the form of the printed report.
type User struct {
	Token    string `json:"token"`
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// Kubeconfig authenticates by the token, so that it also works through a
	// gateway that terminates TLS.
	Kubeconfig string `json:"kubeconfig"`
}

// Create issues everybody's credentials and writes the token file for the API
// server.
func Create(dir, tokenFile string, clients *pki.Authority) (map[string]User, error) {
	created := make(map[string]User, len(Names))
	var table strings.Builder
	for _, user := range Names {
		token, err := newToken()
		if err != nil {
			return nil, err
		}
		pair, err := clients.Issue(pki.Leaf{File: user.Name, CommonName: user.Name, Organization: user.Groups})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&table, "%s,%s,%s,%q\n", token, user.Name, "uid-"+user.Name, strings.Join(user.Groups, ","))
		created[user.Name] = User{
			Token:      token,
			CertFile:   pair.CertFile,
			KeyFile:    pair.KeyFile,
			Kubeconfig: filepath.Join(dir, user.Name+".kubeconfig"),
		}
	}
	return created, os.WriteFile(tokenFile, []byte(table.String()), 0o600)
}

// WriteKubeconfigs writes the file of each user once the address is known.
func WriteKubeconfigs(users map[string]User, url, caFile string) error {
	for name, user := range users {
		auth := &clientcmdapi.AuthInfo{Token: user.Token}
		if err := WriteKubeconfig(user.Kubeconfig, name, url, caFile, auth); err != nil {
			return err
		}
	}
	return nil
}

// WriteKubeconfig writes one file with one context, which is current.
func WriteKubeconfig(file, name, url, caFile string, auth *clientcmdapi.AuthInfo) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["testcluster"] = &clientcmdapi.Cluster{Server: url, CertificateAuthority: caFile}
	config.AuthInfos[name] = auth
	config.Contexts["testcluster"] = &clientcmdapi.Context{Cluster: "testcluster", AuthInfo: name, Namespace: "default"}
	config.CurrentContext = "testcluster"
	return clientcmd.WriteToFile(*config, file)
}

func newToken() (string, error) {
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}
