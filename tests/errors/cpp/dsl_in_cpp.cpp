C = A @ B;
