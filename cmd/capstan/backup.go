package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/extension/backup"
)

// backupPlace says where backups are stored.
type backupPlace struct {
	directory string
	bucket    backup.Place
}

func (p *backupPlace) flag(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.directory, "directory", "", "directory with the backups (default: backups/ in the home directory)")
	f.StringVar(&p.bucket.Bucket, "bucket", "",
		"bucket of an S3-compatible store with the backups; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are its keys")
	f.StringVar(&p.bucket.Endpoint, "endpoint", "https://s3.amazonaws.com", "URL of the store that has the bucket")
	f.StringVar(&p.bucket.Region, "region", "us-east-1", "region of the bucket")
	f.StringVar(&p.bucket.Prefix, "prefix", "", "prefix of the names of all objects in the bucket")
	f.BoolVar(&p.bucket.Insecure, "insecure", false,
		"allow an http endpoint, although a backup has all Secrets of its cluster")
	cmd.MarkFlagsMutuallyExclusive("directory", "bucket")
}

// setFlags returns the flags of cmd that select the place, so that another command can use the same place.
func (p *backupPlace) setFlags(cmd *cobra.Command) (flags string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"directory", "bucket", "endpoint", "region", "prefix", "insecure"}, f.Name) {
			flags += fmt.Sprintf(" --%s=%s", f.Name, f.Value)
		}
	})
	return flags
}

func (a *app) backupStore(p backupPlace) (backup.Store, error) {
	if p.bucket.Bucket != "" {
		store, err := backup.OpenBucket(p.bucket, backup.Credentials{
			AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		})
		if err != nil {
			return nil, hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; see --endpoint, --region and --prefix", "%w", err)
		}
		return store, nil
	}
	if p.directory == "" {
		p.directory = a.home.Backups()
	}
	return backup.Disk{Directory: p.directory}, nil
}

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Backups of clusters, and of the plane itself", Aliases: []string{"backups"},
		Long: `Take, list and restore backups of clusters. A backup is a snapshot of a cluster's etcd, verified by restoring
it into another etcd. For the management plane itself there is "capstan backup plane". docs/backup.md lists what a
backup contains.`,
	}
	cmd.AddCommand(a.backupListCommand(), a.backupCreateCommand(), a.backupRestoreCommand(), a.backupPlaneCommand())
	return cmd
}

func (a *app) backupListCommand() *cobra.Command {
	var format string
	var place backupPlace
	cmd := &cobra.Command{
		Use:               "list [CLUSTER]",
		Aliases:           []string{"ls"},
		Short:             "List the backups, oldest first",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name := "", ""
			if len(args) == 1 {
				namespace, name = a.namespace, args[0]
			}
			store, err := a.backupStore(place)
			if err != nil {
				return err
			}
			all, damaged := store.List(cmd.Context(), namespace, name)
			if damaged != nil && !errors.Is(damaged, backup.ErrDamaged) {
				return damaged
			}
			if all == nil {
				all = []backup.Manifest{}
			}
			err = a.print(format, all, func() error {
				if len(all) == 0 {
					a.next("capstan backup create CLUSTER" + place.setFlags(cmd))
					return nil
				}
				rows := make([][]string, 0, len(all))
				for _, m := range all {
					rows = append(rows, []string{
						m.Name, m.Namespace + "/" + m.Cluster, m.Reason, m.KubernetesVersion, fmt.Sprint(m.Revision), fmt.Sprint(m.Keys),
						fmt.Sprintf("%d KiB", m.Size>>10), age(metav1.NewTime(m.Time)),
					})
				}
				return a.table([]string{"NAME", "CLUSTER", "REASON", "KUBERNETES", "REVISION", "KEYS", "SIZE", "AGE"}, rows)
			})
			return errors.Join(err, damaged)
		},
	}
	place.flag(cmd)
	outputFlag(cmd, &format)
	return cmd
}

func (a *app) backupCreateCommand() *cobra.Command {
	var place backupPlace
	var timeout time.Duration
	var keep int
	cmd := &cobra.Command{
		Use: "create CLUSTER", Short: "Take a backup now, and verify it", ValidArgsFunction: a.completeCluster,
		Example: "  capstan backup create demo",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			c, err := a.client()
			if err != nil {
				return err
			}
			cluster, err := a.cluster(ctx, c, args[0])
			if err != nil {
				return err
			}
			access, err := a.backupAccess(ctx, cluster.Name)
			if err != nil {
				return err
			}
			tool, err := a.backupTool()
			if err != nil {
				return err
			}
			store, err := a.backupStore(place)
			if err != nil {
				return err
			}
			var m backup.Manifest
			err = a.steps().Run("backup of cluster "+cluster.Name, func(detail func(string)) (err error) {
				m, err = backup.Take(ctx, backup.Job{
					Namespace: cluster.Namespace, Cluster: cluster.Name, UID: string(cluster.UID), Reason: backup.ReasonManual,
					Access: access, Tool: tool,
					Store: store, Retention: backup.Retention{Keep: keep}, Progress: detail,
				})
				return err
			})
			if err != nil {
				return hint("check the cluster: capstan cluster describe "+cluster.Name, "backing up cluster %s: %w",
					cluster.Name, err)
			}
			fmt.Fprintln(a.out, m.Name)
			a.next("capstan backup list "+cluster.Name+place.setFlags(cmd),
				fmt.Sprintf("capstan backup restore %s %s%s", cluster.Name, m.Name, place.setFlags(cmd)))
			return nil
		},
	}
	place.flag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	cmd.Flags().IntVar(&keep, "keep", 20,
		"number of backups made by this command that are kept for the cluster")
	return cmd
}

// backupAccess returns how to reach a cluster from this machine, where the cluster's own address does not work.
func (a *app) backupAccess(ctx context.Context, cluster string) (*backup.Access, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	access, err := backup.ReadAccess(ctx, c, a.namespace, cluster)
	if err != nil {
		return nil, hint("follow its progress: capstan cluster describe "+cluster,
			"reading the address and keys of the etcd of cluster %s: %w", cluster, err)
	}
	path, err := a.clusterKubeconfig(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if access.Config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster, err)
	}
	return access, nil
}

func (a *app) backupTool() (backup.Tool, error) {
	version, err := a.versionOrNewest("")
	if err != nil {
		return backup.Tool{}, err
	}
	path, err := a.bin.Kube(version)
	return backup.Tool{Path: path}, err
}
