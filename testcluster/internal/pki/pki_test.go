package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

func TestIssuedCertificatesAnswerForTheirPurposeOnly(t *testing.T) {
	dir := t.TempDir()
	authority, err := NewAuthority(dir, "root")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority(dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	server := issue(t, authority, Leaf{File: "server", CommonName: "server", DNSNames: []string{"*.portcullis.test"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	client := issue(t, authority, Leaf{File: "client", CommonName: "alice", Organization: []string{"developers"}})

	cases := []struct {
		name  string
		leaf  *x509.Certificate
		roots *x509.CertPool
		host  string
		usage x509.ExtKeyUsage
		ok    bool
	}{
		{"wildcard host", server, authority.Pool(), "a.portcullis.test", x509.ExtKeyUsageServerAuth, true},
		{"address", server, authority.Pool(), "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"foreign host", server, authority.Pool(), "example.test", x509.ExtKeyUsageServerAuth, false},
		{"server as client", server, authority.Pool(), "", x509.ExtKeyUsageClientAuth, false},
		{"client", client, authority.Pool(), "", x509.ExtKeyUsageClientAuth, true},
		{"foreign root", client, other.Pool(), "", x509.ExtKeyUsageClientAuth, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.leaf.Verify(x509.VerifyOptions{Roots: c.roots, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{c.usage}})
			if (err == nil) != c.ok {
				t.Fatalf("Verify = %v, want ok = %v", err, c.ok)
			}
		})
	}
}

func issue(t *testing.T, authority *Authority, leaf Leaf) *x509.Certificate {
	t.Helper()
	pair, err := authority.Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	// Loading both files also proves that key and certificate belong together.
	loaded, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}
