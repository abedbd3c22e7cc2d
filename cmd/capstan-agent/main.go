// Command capstan-agent runs on every host of the inventory.
package main

import (
	"os"

	"github.com/capstan-dev/capstan/agent"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(agent.Main(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
