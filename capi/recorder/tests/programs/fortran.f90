! The Fortran names, addresses and constants, on 3 ranks.
program fortran
   use mpi
   implicit none
   integer :: ierror, rank, n, requests(2)
   double precision :: a(64), b(64)
   call MPI_Init(ierror)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
   call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
   a = 0
   call MPI_Irecv(b, 64, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, requests(1), ierror)
   call MPI_Isend(a, 4, MPI_DOUBLE_PRECISION, mod(rank + 1, n), 3, MPI_COMM_WORLD, requests(2), ierror)
   call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
   call MPI_Allreduce(MPI_IN_PLACE, a, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
   call MPI_Bcast(a, 5, MPI_INTEGER, n - 1, MPI_COMM_WORLD, ierror)
   call MPI_Finalize(ierror)
end program
