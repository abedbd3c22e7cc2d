// Package contract holds the contracts of Cluster API as data: each rule that a provider, a runtime extension, core or
// clusterctl must keep.
//
// [Rules] returns the rules. [Decisions] returns the reading to follow wherever the sources contradict each other.
// [Sequences] returns the behaviour tests: what to do, and what must then be observed. [Find] looks up one rule by its
// id.
//
// # Families
//
//   - IM, IMT: InfraMachine and its template
//   - IC, ICT: InfraCluster and its template
//   - CP, BP, MP: ControlPlane, BootstrapConfig and InfraMachinePool, with their templates
//   - CC: ClusterClasses, their variables and patches
//   - RV: releases over time, and what Kubernetes asks of definitions, webhooks and components
//   - RB: roles and their rights
//   - CT: the clusterctl provider contract
//   - RX: Runtime Extension server and Discovery
//   - RC: registration by ExtensionConfig
//   - RS: rules of the Runtime SDK: versions, catalog, conversion, OpenAPI
//   - CL: client and semantics of calls
//   - LH: lifecycle hooks
//   - UH: hooks that exist upstream in addition to the lifecycle hooks
//   - SG: security and best practice
//
// # Sources
//
// A rule's source names a document, then its section:
//
//   - 000: machine infrastructure provider specification (contract v1beta1, the oldest wording)
//   - 001: Runtime SDK proposal (last updated 2022-04-01)
//   - 002: lifecycle hooks (Cluster API v1.2 to v1.11)
//   - 003: InfraCluster contract rules (v1beta1)
//   - 004: clusterctl provider contract
//   - UP: Cluster API after v1.14.0
//   - UP:im, UP:ic, UP:cp, UP:bp, UP:mp: the book's pages about InfraMachine, InfraCluster, ControlPlane,
//     BootstrapConfig and InfraMachinePool
//   - UP:ctl, UP:cc: the book's pages about clusterctl and about writing a ClusterClass
//   - UP:ext, UP:lh, UP:dep: the book's pages about implementing extensions, implementing hooks and deploying
//   - UP:sdk: the current Runtime SDK proposal
//   - UP:code: Go source
//   - UP:v1.9, UP:v1.12: the book's pages at v1.9.9 and v1.12
//   - UP:k8s: the documentation of Kubernetes
package contract
