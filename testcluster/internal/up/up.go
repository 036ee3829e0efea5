// Package up starts a cluster, reports it and holds it. Whatever happens, what
// it has started is stopped before it returns, newest first.
package up

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

const (
	// startTimeout is generous: a loaded machine may take many times the
	// usual few seconds.
	startTimeout = 120 * time.Second
	// stopGrace lets requests in flight end. Nothing is lost by force after
	// that: the data is thrown away and the audit log is never buffered.
	stopGrace = 500 * time.Millisecond
)

var errHolderGone = errors.New("standard input was closed")

// Main is the command `up`; it returns the exit code.
func Main(args []string) int {
	options, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "testcluster up:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		// Whoever holds the other end may just die: that closes it as well.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errHolderGone)
	}()
	if err := run(ctx, options, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testcluster up:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, options options, stdout io.Writer) error {
	logs := filepath.Join(options.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	restore, err := redirectLog(filepath.Join(logs, "testcluster.log"))
	if err != nil {
		return err
	}
	defer restore()

	cluster := &cluster{options: options, logs: logs}
	defer cluster.stop()
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %v", startTimeout))
	defer cancel()
	if err := cluster.start(ctx, starting); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped while starting: %w", context.Cause(ctx))
		}
		return err
	}
	if err := json.NewEncoder(stdout).Encode(cluster.report()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return cluster.hold(ctx)
}

// redirectLog sends what the libraries in this process log to a file; stderr
// is for errors.
func redirectLog(file string) (func(), error) {
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log))))
	return func() {
		klog.Flush()
		log.Close()
	}, nil
}
