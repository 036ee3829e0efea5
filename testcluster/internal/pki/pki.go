// Package pki makes the certificates of one test cluster. Each authority is a
// self-signed root that signs leaves directly; everything lands in PEM files
// that only their owner can read.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is longer than any test run and short enough that a key left behind
// is soon worthless.
const lifetime = 7 * 24 * time.Hour

// Pair names a certificate and its private key.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Authority is a root that issues leaves into its folder.
type Authority struct {
	Pair
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Leaf says what a certificate is for.
type Leaf struct {
	// File is the name of the files, without extension.
	File       string
	CommonName string
	// Organization carries the groups of a client.
	Organization []string
	// DNSNames and IPs make it a server's certificate.
	DNSNames []string
	IPs      []net.IP
}

// NewAuthority creates a root called name with files dir/name.{crt,key}.
func NewAuthority(dir, name string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pair, err := write(dir, name, der, key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, dir: dir, cert: cert, key: key}, nil
}

// Issue creates a key and signs a certificate for it.
func (a *Authority) Issue(leaf Leaf) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := template(pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organization})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.DNSNames = leaf.DNSNames
	template.IPAddresses = leaf.IPs
	if len(leaf.DNSNames) > 0 || len(leaf.IPs) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate %s: %w", leaf.File, err)
	}
	return write(a.dir, leaf.File, der, key)
}

// Pool holds this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// SigningKey writes an RSA key, the usual kind for service account tokens, and
// returns its file. The public half is read from the same file.
func SigningKey(dir, name string) (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name+".key")
	return file, writeKey(file, key)
}

func template(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// An hour of slack for clocks that disagree.
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(lifetime),
		BasicConstraintsValid: true,
	}, nil
}

func write(dir, name string, der []byte, key crypto.Signer) (Pair, error) {
	pair := Pair{
		CertFile: filepath.Join(dir, name+".crt"),
		KeyFile:  filepath.Join(dir, name+".key"),
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(pair.CertFile, block, 0o600); err != nil {
		return Pair{}, err
	}
	return pair, writeKey(pair.KeyFile, key)
}

func writeKey(file string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return os.WriteFile(file, block, 0o600)
}
