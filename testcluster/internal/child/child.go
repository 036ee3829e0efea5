// Package child starts processes that cannot outlive this one: Linux kills
// them when the thread that started them dies, and that thread is kept for as
// long as this process lives.
package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// tailBytes bounds how much of a log is shown after a failure.
const tailBytes = 8 << 10

// Process is a long-running child whose output goes to a log file.
type Process struct {
	Name string
	// Log is the file with everything that the child printed.
	Log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Run starts this binary again as the named component.
func Run(name, logFile string, args []string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{name}, args...)...)
	cmd.Stdout = log
	cmd.Stderr = log
	// A group of its own keeps a terminal's Ctrl-C away: the parent decides
	// the order in which things stop.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	process := &Process{Name: name, Log: logFile, cmd: cmd, done: make(chan struct{})}
	go func() {
		process.err = cmd.Wait()
		close(process.done)
	}()
	return process, nil
}

// PID is the child's process id.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} {
	return p.done
}

// Failure describes a child that ended on its own, or did not become ready,
// with the end of its log.
func (p *Process) Failure(reason string) error {
	tail, err := tail(p.Log)
	if err != nil {
		tail = fmt.Sprintf("(%v)", err)
	}
	return fmt.Errorf("%s %s; the end of %s:\n%s", p.Name, reason, p.Log, tail)
}

// ExitReason says how an ended child ended.
func (p *Process) ExitReason() string {
	<-p.done
	if p.err == nil {
		return "exited early with status 0"
	}
	return fmt.Sprintf("exited early: %v", p.err)
}

// Stop asks the child to end, and forces it after the grace period.
func (p *Process) Stop(grace time.Duration) {
	// An error means that it has already ended, which done tells as well.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// starter runs functions on one thread that lives as long as the process.
// The parent-death signal is bound to the thread that forks, and the Go
// runtime is free to end other threads.
var starter = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// Start is cmd.Start on the lasting thread.
func Start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

func tail(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	offset := max(info.Size()-tailBytes, 0)
	data := make([]byte, info.Size()-offset)
	if n, err := f.ReadAt(data, offset); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	} else {
		data = data[:n]
	}
	if offset > 0 {
		// The first line is cut somewhere in its middle.
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			data = data[end+1:]
		}
	}
	return string(data), nil
}
