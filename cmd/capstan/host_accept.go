package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostAcceptCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "accept NAME", Short: "Allow a host to be used again, although it is not proved clean",
		Long: `A host that is not proved clean after a machine stays out of use: something was left, nothing was compared, or
its policy requires a new installation (docs/owned-hosts.md, "When is a host clean?"). This command confirms that you
have inspected or reinstalled the host, and that the next machine may have it. Leftovers stay on the host.

It shows the leftovers and asks. The acceptance covers only what was shown: if the agent finds something else meanwhile,
run the command again.`,
		Example: "  capstan host accept rack1-07",
		ValidArgsFunction: a.completeHost(func(ctx context.Context) ([]string, error) {
			c, err := a.client()
			if err != nil {
				return nil, err
			}
			return local.AcceptableHosts(ctx, c, a.namespace)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			r, err := local.WhatRemains(cmd.Context(), c, client.ObjectKey{Namespace: a.namespace, Name: args[0]})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Host %s is out of use after machine %s: %s.\n", r.Host, r.Machine, r.Why)
			for _, one := range r.Leftovers {
				fmt.Fprintf(a.err, "  %s\n", oneLine(one, 256))
				if command := local.Mend(one); command != "" {
					fmt.Fprintf(a.err, "      to remove it: %s\n", command)
				}
			}
			if !yes {
				fmt.Fprintf(a.err, "The next machine finds the host as it is now. Use it again? [y/N] ")
				if !confirmed(a.in) {
					return hint(
						"answer y, or add --yes; or remove the leftovers on the host, and its agent checks again by itself",
						"host %s stays out of use",
						r.Host,
					)
				}
			}
			if err := local.Accept(cmd.Context(), c, r); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Host %s may be used again.\n", r.Host)
			a.next("capstan host list")
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	return cmd
}

// answerLimit limits how much of an answer is read, in bytes.
const answerLimit = 1024

// confirmed reports whether the next line of the reader in says yes.
func confirmed(in io.Reader) bool {
	line, _ := bufio.NewReader(io.LimitReader(in, answerLimit)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}
