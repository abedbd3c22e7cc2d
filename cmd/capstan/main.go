// Capstan is the command line of Capstan: it starts and stops the management plane on this machine and works with the
// plane's clusters. Results go to stdout, progress and everything else to stderr; the exit code is 0 only if all went
// well.
package main

import "os"

func main() { os.Exit(run(os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
