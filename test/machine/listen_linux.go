package machine

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Listen listens at an address like another computer in the network: in a separate network namespace, which exists as
// long as the listener and its connections. The namespace is necessary because the plane doesn't
// connect to addresses of its own computer.
func (l *LAN) Listen(address string, port int) (net.Listener, error) {
	made, plugged := make(chan int), make(chan error)
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			close(made)
			done <- result{err: fmt.Errorf("making a network namespace: %w", err)}
			return
		}
		made <- unix.Gettid()
		if err := <-plugged; err != nil {
			done <- result{err: err}
			return
		}
		if err := l.address(address); err != nil {
			done <- result{err: err}
			return
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		done <- result{listener, err}
	}()
	if thread, is := <-made; is {
		plugged <- l.cable("at"+address[strings.LastIndexByte(address, '.')+1:], thread)
	}
	r := <-done
	return r.listener, r.err
}

// address gives this thread's end of a cable an address.
func (l *LAN) address(address string) error {
	at, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", address, l.bits))
	if err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo), netlink.LinkSetUp(link), netlink.AddrAdd(link, at))
}
