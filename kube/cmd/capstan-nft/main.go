// Command capstan-nft is the nft command for kube-proxy only. See package nft.
package main

import (
	"os"

	"github.com/capstan-dev/capstan/kube/nft"
)

func main() { os.Exit(nft.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
