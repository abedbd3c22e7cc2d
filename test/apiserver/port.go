package apiserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// ephemeralRange is the file with the range from which Linux picks ports for programs that ask for any port.
const ephemeralRange = "/proc/sys/net/ipv4/ip_local_port_range"

// restartablePort returns a free port outside of the ephemeral range, so that a test can kill a server and start it
// again at the same port. The kernel could give a port of the ephemeral range to another program meanwhile.
func restartablePort() (int, error) {
	const first = 10000
	last := 32767 // Linux's default
	if data, err := os.ReadFile(ephemeralRange); err == nil {
		if fields := strings.Fields(string(data)); len(fields) == 2 {
			if low, err := strconv.Atoi(fields[0]); err == nil {
				last = low - 1
			}
		}
	}
	if last < first+100 {
		return 0, fmt.Errorf("there are no ports from %d to below %s", first, ephemeralRange)
	}
	var errs []error
	for range 50 {
		port := first + rand.IntN(last-first+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("finding a free port: %w", errors.Join(errs...))
}
