// Command capstan-agent is the process on every host of the inventory.
package main

import (
	"os"

	"github.com/capstan-dev/capstan/agent"
)

func main() { os.Exit(agent.Main(os.Args[1:], os.Stdout, os.Stderr)) }
