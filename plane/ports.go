//go:build linux

package plane

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// portsFile stores the chosen ports.
const portsFile = "ports.json"

// ReadPorts returns the ports that the plane in a directory uses, or last used.
func ReadPorts(dir string) (ports Ports, err error) {
	data, err := os.ReadFile(filepath.Join(dir, portsFile))
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil {
		return Ports{}, fmt.Errorf("reading the ports of the plane: %w", err)
	}
	return ports, nil
}

// choosePorts replaces each zero in want with the port of the previous start if that port is still free, or else with a
// new one. If somebody else listens on a given port, the error names that port.
func choosePorts(dir, bind string, want Ports) (Ports, error) {
	var last Ports
	path := filepath.Join(dir, portsFile)
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, &last) // if the file is damaged, choose new ports
	}
	ports := want
	taken := map[int]bool{}
	for _, p := range []struct {
		name         string
		bind         string
		chosen       *int
		given, again int
	}{
		{"the API server", bind, &ports.APIServer, want.APIServer, last.APIServer},
		{"etcd", "127.0.0.1", &ports.Etcd, want.Etcd, last.Etcd},
		{"etcd's peers", "127.0.0.1", &ports.EtcdPeer, want.EtcdPeer, last.EtcdPeer},
		{"webhooks", "127.0.0.1", &ports.Webhook, want.Webhook, last.Webhook},
		{"the runtime extension", "127.0.0.1", &ports.Extension, want.Extension, last.Extension},
	} {
		if p.given != 0 {
			if _, err := free(p.bind, p.given); err != nil {
				return Ports{}, fmt.Errorf("the port of %s is taken: %w; stop what listens there or choose another port", p.name,
					err)
			}
			taken[p.given] = true
			continue
		}
		port, err := 0, error(nil)
		if p.again != 0 && !taken[p.again] {
			port, _ = free(p.bind, p.again)
		}
		for try := 0; port == 0 || taken[port]; try++ {
			if port, err = free(p.bind, 0); err != nil || try > 100 {
				return Ports{}, fmt.Errorf("choosing a port for %s: %w", p.name, err)
			}
		}
		*p.chosen = port
		taken[port] = true
	}
	data, err := json.MarshalIndent(ports, "", "  ")
	if err != nil {
		return Ports{}, fmt.Errorf("encoding the ports: %w", err)
	}
	if err := atomicfile.Write(path, append(data, '\n'), 0o600); err != nil {
		return Ports{}, err
	}
	return ports, nil
}

// free returns port if nobody listens on it; port 0 finds a free one.
func free(bind string, port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
