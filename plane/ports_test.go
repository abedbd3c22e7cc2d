//go:build linux

package plane

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChoosePorts(t *testing.T) {
	dir := t.TempDir()
	first, err := choosePorts(dir, "127.0.0.1", Ports{})
	if err != nil {
		t.Fatal(err)
	}
	distinct := map[int]bool{}
	for _, port := range []int{first.APIServer, first.Etcd, first.EtcdPeer, first.Webhook, first.Extension} {
		if port == 0 || distinct[port] {
			t.Errorf("the ports are missing or not distinct: %+v", first)
		}
		distinct[port] = true
	}

	t.Run("the next start uses the same ports", func(t *testing.T) {
		again, err := choosePorts(dir, "127.0.0.1", Ports{})
		if err != nil || again != first {
			t.Errorf("got %+v, %v; want %+v", again, err, first)
		}
	})
	t.Run("a chosen port that was taken in the meantime is replaced", func(t *testing.T) {
		other := listen(t, first.Webhook)
		defer other.Close()
		again, err := choosePorts(dir, "127.0.0.1", Ports{})
		if err != nil || again.Webhook == first.Webhook || again.Etcd != first.Etcd {
			t.Errorf("got %+v, %v; had %+v", again, err, first)
		}
	})
	t.Run("a requested port that is taken causes an error that says what the port is for", func(t *testing.T) {
		other := listen(t, 0)
		defer other.Close()
		_, err := choosePorts(dir, "127.0.0.1", Ports{Etcd: other.Addr().(*net.TCPAddr).Port})
		if err == nil || !strings.Contains(err.Error(), "the port of etcd is taken") {
			t.Errorf("got error %v, want one that names etcd's port", err)
		}
	})
	t.Run("a broken file is replaced", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, portsFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := choosePorts(dir, "127.0.0.1", Ports{}); err != nil {
			t.Error(err)
		}
	})
}

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
