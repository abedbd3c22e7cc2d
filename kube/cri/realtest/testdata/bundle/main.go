// Command bundle simulates a bundle for tests of add-ons. It prints a list of its contents. When called as "coredns",
// it prints its process id, user and arguments, and an error if it can't listen on a name server's port.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if filepath.Base(os.Args[0]) != "coredns" {
		fmt.Println(`{"kubernetes": "v1.35.4", "coredns-tag": "v1.14.2", "pause-tag": "3.10.2", "applets": ["coredns"]}`)
		return
	}
	dir, _ := os.Getwd()
	fmt.Println("pid", os.Getpid(), "user", os.Getuid(), os.Getgid(), "in", dir, "called", strings.Join(os.Args, " "))
	if _, err := net.Listen("tcp", ":53"); err != nil {
		fmt.Println(err)
	}
	_, err := os.Stat("/usr")
	fmt.Println("the host's root is not here:", os.IsNotExist(err))
	select {}
}
