// Command capstan-nft replaces the nft command for kube-proxy. It has only what kube-proxy uses. See package nft.
package main

import (
	"os"

	"github.com/capstan-dev/capstan/kube/nft"
)

func main() { os.Exit(nft.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
