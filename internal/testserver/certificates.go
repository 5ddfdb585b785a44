package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are made for a test: an authority that nobody else trusts, a
// server's for 127.0.0.1 and localhost, and a client's for the name locker. The
// fields are paths of PEM files.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string
	ClientCert, ClientKey string

	roots  *x509.CertPool
	client tls.Certificate
}

// NewCertificates makes certificates that last an hour.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := tempDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CA: path("ca.crt"), ServerCert: path("server.crt"), ServerKey: path("server.key"),
		ClientCert: path("client.crt"), ClientKey: path("client.key"), roots: x509.NewCertPool(),
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		}
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return key
	}
	write := func(path, kind string, der []byte) {
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}

	ca, caKey := template(1, "pawl test"), newKey()
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	write(c.CA, "CERTIFICATE", der)
	ca, err = x509.ParseCertificate(der)
	must(err)
	c.roots.AddCert(ca)

	issue := func(leaf *x509.Certificate, cert, keyFile string) {
		key := newKey()
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
		must(err)
		write(cert, "CERTIFICATE", der)
		der, err = x509.MarshalPKCS8PrivateKey(key)
		must(err)
		write(keyFile, "PRIVATE KEY", der)
	}
	server := template(2, "server")
	server.IPAddresses, server.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // it dials other servers
	issue(server, c.ServerCert, c.ServerKey)
	client := template(3, "locker")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	issue(client, c.ClientCert, c.ClientKey)
	c.client, err = tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	must(err)
	return c
}

// Client returns what a client needs to connect.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{RootCAs: c.roots, Certificates: []tls.Certificate{c.client}, MinVersion: tls.VersionTLS12}
}

// etcdArgs are those of an etcd server, which asks clients for a certificate.
func (c *Certificates) etcdArgs() []string {
	return []string{"--cert-file", c.ServerCert, "--key-file", c.ServerKey, "--trusted-ca-file", c.CA, "--client-cert-auth"}
}

// args are those of a Redis server.
func (c *Certificates) args() []string {
	return []string{"--tls-cert-file", c.ServerCert, "--tls-key-file", c.ServerKey, "--tls-ca-cert-file", c.CA,
		"--tls-replication", "yes", "--tls-cluster", "yes"}
}
