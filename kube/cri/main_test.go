//go:build linux

package cri

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// The test binary also serves as the bundle's binary (for components) and as the CRI server that is killed.
const (
	componentVariable = "CAPSTAN_TEST_COMPONENT"
	serverVariable    = "CAPSTAN_TEST_SERVER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(componentVariable) != "":
		runComponent()
	case os.Getenv(serverVariable) != "":
		os.Exit(Main(Contents{Kubernetes: "v1.36.3", Applets: []string{"etcd"}}, os.Args[1:], os.Stderr))
	}
	os.Exit(m.Run())
}

// runComponent executes its arguments in order.
func runComponent() {
	fmt.Println("name", os.Args[0])
	for _, arg := range os.Args[1:] {
		switch arg {
		case "fail":
			os.Exit(3)
		case "ignore-term":
			signal.Ignore(syscall.SIGTERM)
		case "wait-for-file": // CAPSTAN_TEST_FILE
			for {
				if _, err := os.Stat(os.Getenv("CAPSTAN_TEST_FILE")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		case "shout":
			for i := range 1000 {
				fmt.Println("line", i)
			}
		case "complain":
			fmt.Fprintln(os.Stderr, "complaint")
		case "run":
			term := make(chan os.Signal, 1)
			signal.Notify(term, syscall.SIGTERM)
			fmt.Println("running")
			<-term
			fmt.Println("ending")
			os.Exit(7)
		case "run-for-ever":
			fmt.Println("running")
			time.Sleep(time.Hour)
		case "echo": // standard input
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				fmt.Println(in.Text())
			}
		}
	}
	os.Exit(0)
}
