//go:build linux

package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/kube/network/nettest"
)

// getVariable makes the test binary print the content of a URL. dumpVariable makes it print the content of its network
// namespace. Both are used inside a host.
const getVariable, dumpVariable = "CAPSTAN_TEST_GET", "CAPSTAN_TEST_DUMP"

func TestMain(m *testing.M) {
	if os.Getenv(dumpVariable) != "" {
		lines, err := nettest.Lines()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(strings.Join(lines, "\n"))
		os.Exit(0)
	}
	url := os.Getenv(getVariable)
	if url == "" {
		os.Exit(m.Run())
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// get returns the content of a URL from the host's network.
func (h *host) get(url string) (string, error) { return h.self(getVariable + "=" + url) }

// self runs the test binary in the host's network, with a variable that selects its task, and returns its output.
func (h *host) self(variable string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	line := enter(h.pid, "--net", self)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = []string{variable}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w: %s", variable, h.name, err, out)
	}
	return string(out), nil
}
