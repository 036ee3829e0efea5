package kubelet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	utilexec "k8s.io/utils/exec"
)

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

func newSandbox(t *testing.T) (*sandboxes, *sandbox) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	all := newSandboxes(t.Context(), t.TempDir())
	if err := all.create(pod); err != nil {
		t.Fatal(err)
	}
	return all, all.get(cache.MetaObjectToName(pod))
}

func run(t *testing.T, pod *sandbox, in io.Reader, tty bool, command ...string) (string, string, error) {
	t.Helper()
	var out, errOut buffer
	err := pod.ExecInContainer(t.Context(), "", "", "c", command, in, &out, &errOut, tty, nil, 0)
	return out.String(), errOut.String(), err
}

func TestExecCarriesStreamsAndExitCode(t *testing.T) {
	_, pod := newSandbox(t)
	out, errOut, err := run(t, pod, strings.NewReader("in"), false, "sh", "-c", "cat; pwd >&2; exit 7")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Fatalf("error = %v, want exit status 7", err)
	}
	if out != "in" || strings.TrimSpace(errOut) != filepath.Join(pod.dir, "c") {
		t.Fatalf("stdout = %q, stderr = %q", out, errOut)
	}
}

func TestExecReturnsThoughTheClientKeepsItsInputOpen(t *testing.T) {
	_, pod := newSandbox(t)
	open, writer := io.Pipe()
	defer writer.Close()
	if out, _, err := run(t, pod, open, false, "echo", "done"); err != nil || out != "done\n" {
		t.Fatalf("stdout = %q, error = %v", out, err)
	}
}

func TestExecInTerminal(t *testing.T) {
	_, pod := newSandbox(t)
	out, _, err := run(t, pod, strings.NewReader("exit 3\n"), true, "sh", "-c", "test -t 0 && test -t 1 && echo terminal; exec sh")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Fatalf("error = %v, want exit status 3", err)
	}
	if !strings.Contains(out, "terminal\r\n") {
		t.Fatalf("stdout = %q", out)
	}
}

func TestMissingCommandIsNoExitCode(t *testing.T) {
	_, pod := newSandbox(t)
	_, _, err := run(t, pod, nil, false, "no-such-command")
	var exit utilexec.ExitError
	if err == nil || errors.As(err, &exit) {
		t.Fatalf("error = %v, want one without an exit status", err)
	}
}

func TestTheEndOfThePodEndsItsCommands(t *testing.T) {
	all, pod := newSandbox(t)
	started, writer := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- pod.ExecInContainer(context.Background(), "", "", "c", []string{"sh", "-c", "echo up; sleep 3600; echo never"}, nil, writer, nil, false, nil, 0)
	}()
	if _, err := io.ReadFull(started, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err)
	}
	if err := all.remove(pod.name); err != nil {
		t.Fatal(err)
	}
	var exit utilexec.ExitError
	if err := <-result; !errors.As(err, &exit) || exit.ExitStatus() != 137 {
		t.Fatalf("error = %v, want exit status 137", err)
	}
	if _, err := os.Stat(pod.dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the pod's folder is still there: %v", err)
	}
}
