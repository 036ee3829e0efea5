package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// AttachContainer plays a main process: it greets, then repeats its input
// until that ends; without input it talks until nobody listens.
func (s *sandbox) AttachContainer(ctx context.Context, _, _, container string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	ctx, done := s.enter(ctx)
	defer done()
	// Only a writer that the client asked for is there.
	voice := io.Discard
	if out != nil {
		voice = out
	} else if errOut != nil {
		voice = errOut
	}
	if _, err := fmt.Fprintf(voice, "attached to %s\r\n", container); err != nil {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if in != nil {
			_, _ = io.Copy(voice, in)
			return
		}
		talk(ctx, voice, container)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

func talk(ctx context.Context, voice io.Writer, container string) {
	ticker := time.NewTicker(logInterval)
	defer ticker.Stop()
	for number := pastLines + 1; ; number++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := fmt.Fprintf(voice, "%s line %d\r\n", container, number); err != nil {
			return
		}
	}
}

// PortForward connects a stream to a port of this machine.
func (s *sandbox) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	ctx, done := s.enter(ctx)
	defer done()
	defer stream.Close()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() {
		// The client's end of input is passed on; the answer may still come.
		_, _ = io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	// The server decides when the exchange is over; errors past the dial are
	// the peers' affair and show as a closed stream.
	_, _ = io.Copy(stream, conn)
	return nil
}
