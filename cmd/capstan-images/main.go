// Command capstan-images is the image store of a dock: the only process that writes images and unpacks their layers.
// See package image.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stderr)) }
