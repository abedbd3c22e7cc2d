package nettest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/kube/network"
)

// talkLimit bounds the time for a question and its answer. A test that expects no answer takes that long.
const talkLimit = 5 * time.Second

// Serve answers at a port of all addresses of the namespace, by TCP and UDP, until the test ends. The answer is name
// and the source address of the question.
func (s *Space) Serve(port int, name string) {
	s.t.Helper()
	s.Do(func() error {
		where := fmt.Sprintf("[::]:%d", port)
		listener, err := net.Listen("tcp", where)
		if err != nil {
			return err
		}
		packets, err := net.ListenPacket("udp", where)
		if err != nil {
			listener.Close()
			return err
		}
		var wg sync.WaitGroup
		s.t.Cleanup(func() { listener.Close(); packets.Close(); wg.Wait() })
		answer := func(from net.Addr) []byte {
			a := netip.MustParseAddrPort(from.String())
			return []byte(name + " saw " + a.Addr().Unmap().String())
		}
		wg.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conn.SetDeadline(time.Now().Add(talkLimit))
				conn.Write(answer(conn.RemoteAddr()))
				conn.Close()
			}
		})
		wg.Go(func() {
			buffer := make([]byte, 2048)
			for {
				_, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				packets.WriteTo(answer(from), from)
			}
		})
		return nil
	})
}

// Ask sends a question to a port from the namespace and returns the answer. protocol is "tcp" or "udp". The address
// from may be the zero Addr.
func (s *Space) Ask(protocol string, from netip.Addr, to netip.AddrPort, limit time.Duration) (string, error) {
	answer := ""
	err := network.Within(s.Path(), func() error {
		dialer := net.Dialer{Timeout: limit}
		if from.IsValid() {
			dialer.LocalAddr = &net.TCPAddr{IP: from.AsSlice()}
			if protocol == "udp" {
				dialer.LocalAddr = &net.UDPAddr{IP: from.AsSlice()}
			}
		}
		conn, err := dialer.Dial(protocol, to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(limit))
		if protocol == "udp" {
			if _, err := conn.Write([]byte("who is there?")); err != nil {
				return err
			}
		}
		buffer := make([]byte, 2048)
		n, err := conn.Read(buffer)
		answer = string(buffer[:n])
		return err
	})
	return answer, err
}

// Ear records what arrives by UDP at a port of a namespace.
type Ear struct {
	mu    sync.Mutex
	heard []string
}

// Listen records what arrives by UDP at a port until the test ends.
func (s *Space) Listen(port int) *Ear {
	s.t.Helper()
	e := &Ear{}
	s.Do(func() error {
		packets, err := net.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		s.t.Cleanup(func() { packets.Close(); wg.Wait() })
		wg.Go(func() {
			buffer := make([]byte, 2048)
			for {
				n, _, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				e.mu.Lock()
				e.heard = append(e.heard, string(buffer[:n]))
				e.mu.Unlock()
			}
		})
		return nil
	})
	return e
}

// Heard reports whether a text arrived.
func (e *Ear) Heard(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.heard, text)
}

// Say sends a text by UDP. The address from may be the zero Addr.
func (s *Space) Say(from netip.Addr, to netip.AddrPort, text []byte) error {
	return network.Within(s.Path(), func() error {
		dialer := net.Dialer{}
		if from.IsValid() {
			dialer.LocalAddr = &net.UDPAddr{IP: from.AsSlice()}
		}
		conn, err := dialer.Dial("udp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(text)
		return err
	})
}

// Hears sends questions by TCP and UDP and checks the answers.
func (s *Space) Hears(to netip.AddrPort, want string) {
	s.t.Helper()
	for _, protocol := range []string{"tcp", "udp"} {
		if got, err := s.Ask(protocol, netip.Addr{}, to, talkLimit); err != nil || got != want {
			s.t.Errorf("%s to %s: got %q, %v; want %q", protocol, to, got, err, want)
		}
	}
}

// HearsFrom sends a question by UDP from an address and port, and checks the answer.
func (s *Space) HearsFrom(from, to netip.AddrPort, want string) {
	s.t.Helper()
	s.Do(func() error {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(talkLimit))
		if _, err := conn.Write([]byte("who is there?")); err != nil {
			return err
		}
		buffer := make([]byte, 2048)
		n, err := conn.Read(buffer)
		if got := string(buffer[:n]); err == nil && got != want {
			err = fmt.Errorf("got %q from %s, want %q", got, to, want)
		}
		return err
	})
}

// Stream sends bytes between two namespaces, over one TCP connection at this address, and returns how many arrived.
func Stream(from, to *Space, address netip.AddrPort, size int64) (int64, error) {
	var listener net.Listener
	to.Do(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", address.Port()))
		return err
	})
	defer listener.Close()
	sent := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.CopyN(conn, zeros{}, size)
			conn.Close()
		}
		sent <- err
	}()
	got := int64(0)
	err := network.Within(from.Path(), func() error {
		conn, err := net.DialTimeout("tcp", address.String(), talkLimit)
		if err != nil {
			listener.Close()
			return err
		}
		defer conn.Close()
		got, err = io.Copy(io.Discard, conn)
		return err
	})
	return got, errors.Join(err, <-sent)
}

// zeros is an endless stream of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
