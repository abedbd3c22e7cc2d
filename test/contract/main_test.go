//go:build linux

package contract

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// reports is the directory for the reports that the tests write.
const reports = "../../bin/reports"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	if f := flag.Lookup("test.list"); f.Value.String() != "" {
		return m.Run()
	}
	if err := startShared(); err != nil {
		fmt.Fprintln(os.Stderr, "contract: starting the API server:", err)
		code = 1
	}
	defer func() {
		if err := stopShared(); err != nil {
			fmt.Fprintln(os.Stderr, "contract: stopping the API server:", err)
			code = max(code, 1)
		}
	}()
	if code != 0 {
		return code
	}
	return m.Run()
}
