package apiserver

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// reservation holds a TCP port without listening on it. kube-apiserver cannot
// choose a port of its own, and a port that was free a moment ago may be taken
// when it gets there; both sides therefore share the port by SO_REUSEPORT, and
// nobody else can have it meanwhile.
type reservation struct {
	fd   int
	port int
}

func reserve() (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	port, err := bind(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return &reservation{fd: fd, port: port}, nil
}

func bind(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	loopback := unix.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}
	if err := unix.Bind(fd, &loopback); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	bound, ok := address.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("unexpected socket address %T", address)
	}
	return bound.Port, nil
}

func (r *reservation) release() {
	unix.Close(r.fd)
}
