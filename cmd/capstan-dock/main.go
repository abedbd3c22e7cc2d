// Command capstan-dock runs local hosts: the dock itself (run), PID 1 of a host (init), and, when called by another
// name, the commands on a host that talk to its PID 1 (systemctl, journalctl, hostnamectl, poweroff, reboot). See
// package dock.
package main

import "os"

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }
