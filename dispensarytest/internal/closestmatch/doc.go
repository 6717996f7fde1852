// Package closestmatch finds the name that a misspelt one stands for.
package closestmatch
