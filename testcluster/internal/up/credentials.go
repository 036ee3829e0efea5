package up

import (
	"net"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"portcullis.dev/testcluster/internal/apiserver"
	"portcullis.dev/testcluster/internal/pki"
	"portcullis.dev/testcluster/internal/users"
)

// credentials are the keys and certificates of one cluster.
type credentials struct {
	servingCA *pki.Authority
	clientCA  *pki.Authority

	apiserver     pki.Pair
	gateway       pki.Pair
	kubelet       pki.Pair
	kubeletClient pki.Pair
	internal      pki.Pair
	manager       pki.Pair

	serviceAccountKey string
	tokenFile         string
	users             map[string]users.User
}

func createCredentials(dir string) (*credentials, error) {
	pkiDir := filepath.Join(dir, "pki")
	c := &credentials{tokenFile: filepath.Join(pkiDir, "tokens.csv")}
	var err error
	if c.servingCA, err = pki.NewAuthority(pkiDir, "ca"); err != nil {
		return nil, err
	}
	if c.clientCA, err = pki.NewAuthority(pkiDir, "client-ca"); err != nil {
		return nil, err
	}
	var work errgroup.Group
	// Much slower than all the others together.
	work.Go(func() (err error) {
		c.serviceAccountKey, err = pki.SigningKey(pkiDir, "service-account")
		return err
	})
	if err := c.issue(); err != nil {
		return nil, err
	}
	c.users, err = users.Create(filepath.Join(dir, "users"), c.tokenFile, c.clientCA)
	if err != nil {
		return nil, err
	}
	return c, work.Wait()
}

func (c *credentials) issue() error {
	local := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	leaves := []struct {
		into      *pki.Pair
		authority *pki.Authority
		leaf      pki.Leaf
	}{
		{&c.apiserver, c.servingCA, pki.Leaf{
			File: "apiserver", CommonName: apiserver.Name, IPs: local,
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		}},
		{&c.gateway, c.servingCA, pki.Leaf{
			File: "serving", CommonName: "gateway", IPs: local,
			DNSNames: []string{"localhost", "*.portcullis.test"},
		}},
		{&c.kubelet, c.servingCA, pki.Leaf{File: "kubelet", CommonName: "kubelet", IPs: local}},
		{&c.kubeletClient, c.clientCA, pki.Leaf{File: "kubelet-client", CommonName: apiserver.KubeletClient}},
		{&c.internal, c.clientCA, pki.Leaf{File: "testcluster", CommonName: apiserver.Internal, Organization: []string{"system:masters"}}},
		{&c.manager, c.clientCA, pki.Leaf{
			File: "controller-manager", CommonName: "system:kube-controller-manager",
			// Its own role presumes a service account for each controller,
			// which would slow the start for nothing that tests look at.
			Organization: []string{"system:masters"},
		}},
	}
	for _, entry := range leaves {
		pair, err := entry.authority.Issue(entry.leaf)
		if err != nil {
			return err
		}
		*entry.into = pair
	}
	return nil
}
