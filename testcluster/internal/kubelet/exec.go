package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"portcullis.dev/testcluster/internal/child"
)

// drainTimeout bounds the wait for output after a command has ended: something
// it left in the background may hold the other end open.
const drainTimeout = 2 * time.Second

// endOfTransmission is what a terminal takes for the end of the input.
const endOfTransmission = 4

// ExecInContainer runs a command in the container's folder.
func (s *sandbox) ExecInContainer(ctx context.Context, _, _, container string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(command) == 0 {
		return errors.New("no command given")
	}
	ctx, done := s.enter(ctx)
	defer done()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = filepath.Join(s.dir, container)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + cmd.Dir,
		"HOSTNAME=" + s.name.Name,
		"POD_NAMESPACE=" + s.name.Namespace,
		"POD_NAME=" + s.name.Name,
		"CONTAINER_NAME=" + container,
	}
	cmd.WaitDelay = drainTimeout
	// The command leads a process group, so that what it starts ends with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	if tty {
		err = runInTerminal(cmd, in, out, resize)
	} else {
		err = runOnPipes(cmd, in, out, errOut)
	}
	return exitCode(err)
}

// enter ties a call to the life of the pod.
func (s *sandbox) enter(ctx context.Context) (context.Context, func()) {
	s.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.work.Done()
	}
}

func runOnPipes(cmd *exec.Cmd, in io.Reader, out, errOut io.WriteCloser) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A nil stream must not turn into a non-nil interface.
	if out != nil {
		cmd.Stdout = out
	}
	if errOut != nil {
		cmd.Stderr = errOut
	}
	if in == nil {
		return startAndWait(cmd)
	}
	// With cmd.Stdin, Wait would not return before the client closes its end.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		defer stdin.Close()
		// The command may stop reading whenever it likes.
		_, _ = io.Copy(stdin, in)
	}()
	return startAndWait(cmd)
}

func startAndWait(cmd *exec.Cmd) error {
	if err := child.Start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		// It exited with success; only its output was left open.
		return nil
	}
	return err
}

func runInTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	master, terminal, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	defer master.Close()
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	err = child.Start(cmd)
	// The command has its own copies; ours would hide its end from the reader.
	terminal.Close()
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go followSize(master, resize, stop)
	if in != nil {
		go func() {
			_, _ = io.Copy(master, in)
			_, _ = master.Write([]byte{endOfTransmission})
		}()
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if out == nil {
			out = io.Discard
		}
		// Reading fails with EIO once nobody has the terminal open any more.
		_, _ = io.Copy(out, master)
	}()
	err = cmd.Wait()
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	return err
}

func followSize(master *os.File, resize <-chan remotecommand.TerminalSize, stop <-chan struct{}) {
	for {
		select {
		case size, ok := <-resize:
			if !ok {
				return
			}
			// A terminal that has just been closed has no size.
			_ = pty.Setsize(master, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		case <-stop:
			return
		}
	}
}

// exitCode turns the end of a command into the form that reaches the client
// as a number; all else arrives as an internal error.
func exitCode(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return utilexec.CodeExitError{Err: err, Code: code}
}
