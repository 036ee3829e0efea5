// Package etcd runs a single-member etcd inside this process. Its data lives
// as long as the test cluster, so nothing is synced to disk and nobody closes it.
package etcd

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// Server is a running etcd.
type Server struct {
	// URL is where clients connect.
	URL  string
	etcd *embed.Etcd
}

// Start listens on free ports of the loopback interface. The server may still
// be electing itself when Start returns; clients wait for it on their own.
func Start(dir, logFile string) (*Server, error) {
	// Port 0 in the peer address never reaches a peer: there is none.
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.UnsafeNoFsync = true
	config.ListenPeerUrls = []url.URL{anyPort}
	config.AdvertisePeerUrls = []url.URL{anyPort}
	config.ListenClientUrls = []url.URL{anyPort}
	config.AdvertiseClientUrls = []url.URL{anyPort}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// A lone member need not wait a second to win its own election.
	config.TickMs = 10
	config.ElectionMs = 100
	config.LogLevel = "warn"
	config.LogOutputs = []string{logFile}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("start etcd (log: %s): %w", logFile, err)
	}
	return &Server{URL: "http://" + server.Clients[0].Addr().String(), etcd: server}, nil
}

// WaitReady returns once the member leads.
func (s *Server) WaitReady(ctx context.Context) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case err := <-s.etcd.Err():
		return fmt.Errorf("etcd stopped while starting: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("etcd did not become ready: %w", context.Cause(ctx))
	}
}

// Failed yields the error that ended the server.
func (s *Server) Failed() <-chan error {
	return s.etcd.Err()
}
